# SPDX-License-Identifier: Apache-2.0
"""The perceptrons of transformer blocks."""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn

from .linear import Linear


class QuickGELU(nn.Layer):
    """x * sigmoid(1.702 x), the approximation of GELU in OpenAI's CLIP."""

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return x * F.sigmoid(1.702 * x)


class Mlp(nn.Layer):
    """Linear, activation, Linear, each followed by dropout.

    Args:
        dim: input width.
        hidden_dim: inner width (default: 4 times ``dim``).
        out_dim: output width (default: ``dim``).
        act: class of the activation; ``nn.GELU`` is the exact erf form.
        drop: dropout probability in [0, 1).
    Shape: [..., dim] -> [..., out_dim].
    """

    def __init__(self, dim, hidden_dim=None, out_dim=None, act=nn.GELU, drop=0.0, bias=True):
        super().__init__()
        hidden_dim = hidden_dim or 4 * dim
        bias_attr = None if bias else False
        self.fc1 = Linear(dim, hidden_dim, bias_attr=bias_attr)
        self.act = act()
        self.fc2 = Linear(hidden_dim, out_dim or dim, bias_attr=bias_attr)
        self.drop = nn.Dropout(drop)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))


class SwiGLU(nn.Layer):
    """(silu(x W) * x V) U, with W and V side by side in one product; dropout as in :class:`Mlp`.

    Paper: GLU Variants Improve Transformer, 2020, https://arxiv.org/abs/2002.05202, eq. 6

    Args:
        dim: input and output width.
        hidden_dim: width of the gated product; an Mlp of 3/2 this width has as many weights.
        drop: dropout probability in [0, 1).
    Shape: [..., dim], unchanged.
    """

    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = Linear(dim, 2 * hidden_dim)
        self.fc2 = Linear(hidden_dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        gate, value = self.fc1(x).chunk(2, axis=-1)
        return self.drop(self.fc2(self.drop(F.silu(gate) * value)))
