# SPDX-License-Identifier: Apache-2.0
"""The multi-layer perceptron behind every projector and predictor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paddle import nn
from paddle.nn.initializer import Uniform

from passl.utils.registry import HEADS

_NORMS = {"batch": nn.BatchNorm1D, "layer": nn.LayerNorm}
_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


@HEADS.register()
class MLPHead(nn.Sequential):
    """Linear, norm, activation for each hidden width, then Linear and, if asked for, a last norm.

    ========================  ======================================================================
    SimCLR projector          ``hidden_dims=[2048], out_dim=128, last_norm=True``
    MoCo v2 projector         ``hidden_dims=[2048], out_dim=128, norm=None``
    BYOL, both                ``hidden_dims=[4096], out_dim=256, bias=True, last_bias=False``
    SimSiam projector         ``hidden_dims=[2048, 2048], out_dim=2048, last_norm=True, last_affine=False``
    SimSiam predictor         ``hidden_dims=[512], out_dim=2048``
    Barlow Twins projector    ``hidden_dims=[8192, 8192], out_dim=8192, last_bias=False``
    ========================  ======================================================================

    The layers are numbered as in the official PyTorch code of these methods (0 Linear, 1 norm,
    2 ReLU, 3 Linear, ...), and linear layers start as PyTorch's do.

    Args:
        in_dim: input width.
        hidden_dims: inner widths; none makes it one linear layer.
        out_dim: output width.
        norm: ``"batch"``, ``"layer"`` or None, after each hidden linear layer.
        last_norm: whether ``norm`` also follows the last linear layer.
        last_affine: whether that last norm has a weight and a bias.
        bias: bias of the hidden linear layers; by default only where no norm follows.
        last_bias: the same for the last linear layer.
        act: ``"relu"`` or ``"gelu"``.
    Shape: [B, in_dim] -> [B, out_dim].
    """

    def __init__(
        self, in_dim: int, hidden_dims: Sequence[int], out_dim: int, norm: str | None = "batch",
        last_norm: bool = False, last_affine: bool = True, bias: bool | None = None,
        last_bias: bool | None = None, act: str = "relu",
    ):  # fmt: skip
        if norm is not None and norm not in _NORMS:
            raise ValueError(f"norm must be one of {', '.join(_NORMS)} or None, got {norm!r}")
        if act not in _ACTIVATIONS:
            raise ValueError(f"act must be one of {', '.join(_ACTIVATIONS)}, got {act!r}")
        if last_norm and norm is None:
            raise ValueError("last_norm=True needs a norm to put there: set norm to 'batch' or 'layer'")
        layers: list[nn.Layer] = []
        for hidden_dim in hidden_dims:
            layers.append(_linear(in_dim, hidden_dim, norm is None if bias is None else bias))
            if norm is not None:
                layers.append(_NORMS[norm](hidden_dim))
            layers.append(_ACTIVATIONS[act]())
            in_dim = hidden_dim
        layers.append(_linear(in_dim, out_dim, not last_norm if last_bias is None else last_bias))
        if last_norm and norm is not None:
            affine = None if last_affine else False
            layers.append(_NORMS[norm](out_dim, weight_attr=affine, bias_attr=affine))
        super().__init__(*layers)
        self.out_dim = out_dim


def _linear(in_dim, out_dim, bias):
    """A linear layer with PyTorch's default start: uniform within 1 / sqrt(in_dim)."""
    initial = Uniform(-1.0 / math.sqrt(in_dim), 1.0 / math.sqrt(in_dim))
    layer = nn.Linear(in_dim, out_dim, bias_attr=None if bias else False)
    initial(layer.weight)
    if bias:
        initial(layer.bias)
    return layer
