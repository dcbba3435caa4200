# SPDX-License-Identifier: Apache-2.0
"""The linear layer of token models, quick to train on a CPU."""

from __future__ import annotations

import paddle
from paddle import nn


class Linear(nn.Linear):
    """``nn.Linear`` whose bias, when training on a CPU, is added as the product ones [R, 1] @ bias [1, out].

    The gradient of the bias is then a product too.  Paddle's own sums R rows one after the other,
    which takes longer than the layer's other two gradients together.
    """

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.has_bias = self.bias is not None  # asked in forward, it would cut a static graph in two

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        if not self.has_bias or not self.training or paddle.get_device() != "cpu":
            return super().forward(x)
        rows = x.reshape([-1, x.shape[-1]])  # [R, in]
        ones = paddle.ones([rows.shape[0], 1], dtype=rows.dtype)
        y = paddle.matmul(rows, self.weight) + paddle.matmul(ones, self.bias.unsqueeze(0))
        return y.reshape([*x.shape[:-1], y.shape[-1]])
