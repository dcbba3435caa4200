# SPDX-License-Identifier: Apache-2.0
"""Channels that are scaled by what all of them say."""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn


class SqueezeExcitation(nn.Layer):
    """Scales each channel by a number in (0, 1) that the means of all channels decide.

    Paper: Squeeze-and-Excitation Networks, CVPR 2018, https://arxiv.org/abs/1709.01507

    Args:
        dim: channels.
        hidden_dim: width between the two layers.
        act: activation between them.
        names: of the two layers in the state.
    Shape: [B, dim, h, w], unchanged.
    """

    def __init__(self, dim, hidden_dim, act=F.relu, names=("fc1", "fc2")):
        super().__init__()
        self.act, self.names = act, names
        self.add_sublayer(names[0], nn.Conv2D(dim, hidden_dim, 1))
        self.add_sublayer(names[1], nn.Conv2D(hidden_dim, dim, 1))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        squeeze, excite = (getattr(self, name) for name in self.names)
        scale = excite(self.act(squeeze(x.mean([2, 3], keepdim=True))))  # [B, C, 1, 1]
        return x * F.sigmoid(scale)
