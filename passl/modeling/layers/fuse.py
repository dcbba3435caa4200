# SPDX-License-Identifier: Apache-2.0
"""Convolutions and linear layers with a BatchNorm next to them, which inference can merge into one layer."""

from __future__ import annotations

import paddle
from paddle import nn

from .linear import Linear


class ConvNorm(nn.Layer):
    """A convolution without bias, then BatchNorm.

    Args: those of ``nn.Conv2D`` up to ``padding``.
    Shape: [B, in_chans, H, W] -> [B, out_chans, H', W'].
    """

    def __init__(self, in_chans, out_chans, kernel_size, stride=1, padding=0):
        super().__init__()
        self.linear = nn.Conv2D(in_chans, out_chans, kernel_size, stride=stride, padding=padding, bias_attr=False)
        self.bn = nn.BatchNorm2D(out_chans)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.bn(self.linear(x))

    def fused(self) -> nn.Conv2D:
        """One convolution that does what both do in evaluation."""
        scale, shift = scale_and_shift(self.bn)
        out_chans, in_chans, *kernel = self.linear.weight.shape
        conv = nn.Conv2D(in_chans, out_chans, kernel, stride=self.linear._stride, padding=self.linear._padding)
        conv.weight.set_value(self.linear.weight * scale.reshape([-1, 1, 1, 1]))
        conv.bias.set_value(shift)
        return conv


class LinearNorm(nn.Layer):
    """A linear layer without bias, then BatchNorm over samples and tokens.

    Args:
        dim, out_dim: widths.
        norm_weight: initial weight of the BatchNorm; 0 makes a residual branch start as nothing.
    Shape: [B, N, dim] -> [B, N, out_dim].
    """

    def __init__(self, dim, out_dim, norm_weight=1.0):
        super().__init__()
        self.linear = nn.Linear(dim, out_dim, bias_attr=False)
        weight = paddle.ParamAttr(initializer=nn.initializer.Constant(norm_weight))
        self.bn = nn.BatchNorm1D(out_dim, weight_attr=weight)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = self.linear(x)
        return self.bn(x.flatten(0, 1)).reshape([-1, *x.shape[1:]])

    def fused(self) -> nn.Linear:
        """One linear layer that does what both do in evaluation."""
        scale, shift = scale_and_shift(self.bn)
        linear = Linear(*self.linear.weight.shape)
        linear.weight.set_value(self.linear.weight * scale)
        linear.bias.set_value(shift)
        return linear


class NormLinear(nn.Layer):
    """BatchNorm, dropout, then a linear layer.

    Args:
        dim, out_dim: widths.
        drop: dropout probability in [0, 1).
    Shape: [B, dim] -> [B, out_dim].
    """

    def __init__(self, dim, out_dim, drop=0.0):
        super().__init__()
        self.bn = nn.BatchNorm1D(dim)
        self.drop = nn.Dropout(drop)
        self.linear = nn.Linear(dim, out_dim)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.linear(self.drop(self.bn(x)))

    def fused(self) -> nn.Linear:
        """One linear layer that does what both do in evaluation."""
        scale, shift = scale_and_shift(self.bn)
        linear = Linear(*self.linear.weight.shape)
        linear.weight.set_value(scale.unsqueeze(1) * self.linear.weight)
        linear.bias.set_value(self.linear.bias + paddle.matmul(shift, self.linear.weight))
        return linear


def fuse_norms(model: nn.Layer) -> None:
    """Replace every layer of ``model`` that has ``fused`` by what that gives."""
    for name, child in list(model.named_children()):
        if hasattr(child, "fused"):
            with paddle.no_grad():
                setattr(model, name, child.fused())
        else:
            fuse_norms(child)


def scale_and_shift(norm) -> tuple[paddle.Tensor, paddle.Tensor]:
    """a and b such that the BatchNorm gives a x + b in evaluation."""
    scale = norm.weight / (norm._variance + norm._epsilon).sqrt()
    return scale, norm.bias - norm._mean * scale
