# SPDX-License-Identifier: Apache-2.0
"""Initialisers that the reference codebases share."""

from __future__ import annotations

import math

from paddle import nn
from paddle.nn.initializer import Constant, TruncatedNormal, Uniform

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


def init_torch_conv(conv: nn.Conv2D) -> None:
    """PyTorch's default for a convolution: uniform within 1/sqrt(fan_in) for weight and bias."""
    bound = 1.0 / math.sqrt(math.prod(conv.weight.shape[1:]))
    Uniform(-bound, bound)(conv.weight)
    if conv.bias is not None:
        Uniform(-bound, bound)(conv.bias)
