# SPDX-License-Identifier: Apache-2.0
"""Initialisers that the reference codebases share."""

from __future__ import annotations

import math

from paddle import nn
from paddle.nn.initializer import Constant, Normal, TruncatedNormal, Uniform, XavierUniform

zeros_ = Constant(0.0)
ones_ = Constant(1.0)


def trunc_normal_(parameter, std: float = 0.02) -> None:
    """Normal with standard deviation ``std``, cut at two units (not two deviations), as DeiT and timm do."""
    TruncatedNormal(mean=0.0, std=std, a=-2.0, b=2.0)(parameter)


def init_vit(layer: nn.Layer) -> None:
    """DeiT's rule for one layer: Linear weights truncated normal 0.02, biases 0, norms 1 and 0."""
    if isinstance(layer, nn.Linear):
        trunc_normal_(layer.weight)
        if layer.bias is not None:
            zeros_(layer.bias)
    elif isinstance(layer, (nn.LayerNorm, nn.BatchNorm1D, nn.BatchNorm2D, nn.GroupNorm)):
        if layer.weight is not None:
            ones_(layer.weight)
        if layer.bias is not None:
            zeros_(layer.bias)


def init_torch_conv(layer: nn.Layer) -> None:
    """PyTorch's default for a convolution: uniform within 1/sqrt(fan_in) for weight and bias."""
    if isinstance(layer, nn.Conv2D):
        bound = 1.0 / math.sqrt(math.prod(layer.weight.shape[1:]))
        Uniform(-bound, bound)(layer.weight)
        if layer.bias is not None:
            Uniform(-bound, bound)(layer.bias)


def init_kaiming(layer: nn.Layer) -> None:
    """He's normal rule on the outgoing side for a convolution; norms start at 1 and 0 by themselves."""
    if isinstance(layer, nn.Conv2D):
        out_chans, _, height, width = layer.weight.shape
        Normal(0.0, math.sqrt(2.0 / (out_chans * height * width)))(layer.weight)


def init_lecun(layer: nn.Layer) -> None:
    """Flax's default: weights of products normal with variance 1 / fan_in, biases 0."""
    if isinstance(layer, (nn.Linear, nn.Conv2D)):
        shape = layer.weight.shape
        fan_in = shape[0] if isinstance(layer, nn.Linear) else math.prod(shape[1:])
        Normal(0.0, math.sqrt(1.0 / fan_in))(layer.weight)
        if layer.bias is not None:
            zeros_(layer.bias)


def init_xavier(layer: nn.Layer) -> None:
    """Glorot's uniform rule for the weights of a linear layer, biases 0."""
    if isinstance(layer, nn.Linear):
        XavierUniform()(layer.weight)
        if layer.bias is not None:
            zeros_(layer.bias)
