# SPDX-License-Identifier: Apache-2.0
"""A convolution and its norm, under timm's names."""

from __future__ import annotations

import paddle
from paddle import nn


class ConvNorm(nn.Layer):
    """A convolution without bias and its BatchNorm.

    Args:
        in_chans, out_chans: channels.
        kernel: side of the kernel, odd.
        stride: of the convolution.
        groups: of the convolution.
    Shape: [B, in_chans, h, w] -> [B, out_chans, h / stride, w / stride].
    """

    def __init__(self, in_chans, out_chans, kernel=1, stride=1, groups=1):
        super().__init__()
        self.conv = nn.Conv2D(
            in_chans, out_chans, kernel, stride=stride, padding=kernel // 2, groups=groups, bias_attr=False
        )
        self.bn = nn.BatchNorm2D(out_chans)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.bn(self.conv(x))
