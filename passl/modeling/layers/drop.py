# SPDX-License-Identifier: Apache-2.0
"""Stochastic depth.

Paper: Deep Networks with Stochastic Depth, ECCV 2016, https://arxiv.org/abs/1603.09382
"""

from __future__ import annotations

import paddle
from paddle import nn


class DropPath(nn.Layer):
    """Zeroes a residual branch for whole samples and divides the others by the keep probability.

    Args:
        drop_prob: probability in [0, 1) that a sample loses the branch in training.
    """

    def __init__(self, drop_prob: float = 0.0):
        super().__init__()
        if not 0.0 <= drop_prob < 1.0:
            raise ValueError(f"drop_prob must be in [0, 1), got {drop_prob}")
        self.drop_prob = float(drop_prob)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep_prob = 1.0 - self.drop_prob
        shape = [x.shape[0]] + [1] * (x.ndim - 1)
        mask = paddle.bernoulli(paddle.full(shape, keep_prob, dtype="float32")).astype(x.dtype)
        return x * (mask / keep_prob)

    def extra_repr(self) -> str:
        return f"drop_prob={self.drop_prob}"


def linear_drop_path(rate: float, depth: int) -> list[float]:
    """Rates that rise linearly from 0 in the first block to ``rate`` in the last."""
    return [rate * i / max(depth - 1, 1) for i in range(depth)]
