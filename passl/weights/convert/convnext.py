# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt as its authors, Hugging Face, torchvision and timm store it.

timm writes the perceptrons of its models below tiny as 1x1 convolutions; here they are linear everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from .table import Arrays, Layout, Rule, parameters

_MLP = re.compile(r"stages\.\d+\.blocks\.\d+\.mlp\.fc[12]\.weight")
_BLOCK = r"stages.\1.blocks.\2."


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1)  # [1, 1, 1, C] or [C, 1, 1] -> [C]


def _linear(kernel: np.ndarray) -> np.ndarray:
    return kernel.reshape(kernel.shape[:2])  # [out, in, 1, 1] -> [out, in]


TIMM = Layout(
    name="timm",
    family="any",
    signature=(r"stages\.0\.blocks\.0\.conv_dw\.weight", r"stages\.0\.blocks\.0\.mlp\.fc1\.weight"),
    rules=(Rule(f"({_MLP.pattern})", r"\1", change=_linear),),
)


def to_timm(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """timm's form of arrays that have its names: 1x1 convolutions in models of two blocks in the first stage."""
    small = "stages.0.blocks.1.conv_dw.weight" in arrays and "stages.0.blocks.2.conv_dw.weight" not in arrays
    return {n: a.reshape(*a.shape, 1, 1) if small and _MLP.fullmatch(n) else a for n, a in arrays.items()}


_OFFICIAL_BLOCK = r"stages\.(\d)\.(\d+)\."

# https://github.com/facebookresearch/ConvNeXt and ConvNeXt-V2
OFFICIAL = Layout(
    name="official",
    family="ConvNeXt",
    signature=(r"downsample_layers\.0\.0\.weight", _OFFICIAL_BLOCK + r"dwconv\.weight"),
    rules=(
        parameters(r"downsample_layers\.0\.([01])", r"stem.\1"),
        parameters(r"downsample_layers\.([123])\.([01])", r"stages.\1.downsample.\2"),
        parameters(_OFFICIAL_BLOCK + "dwconv", _BLOCK + "conv_dw"),
        parameters(_OFFICIAL_BLOCK + "norm", _BLOCK + "norm"),
        parameters(_OFFICIAL_BLOCK + r"pwconv([12])", _BLOCK + r"mlp.fc\3"),
        Rule(_OFFICIAL_BLOCK + "gamma", _BLOCK + "gamma"),
        Rule(_OFFICIAL_BLOCK + r"grn\.gamma", _BLOCK + "mlp.grn.weight", change=_flat),
        Rule(_OFFICIAL_BLOCK + r"grn\.beta", _BLOCK + "mlp.grn.bias", change=_flat),
        parameters("norm", "head.norm"),
        parameters("head", "head.fc"),
    ),
)

_HF = r"(?:convnext(?:v2)?\.)?"
_HF_BLOCK = _HF + r"encoder\.stages\.(\d)\.layers\.(\d+)\."

HF = Layout(
    name="hf",
    family="ConvNeXt",
    signature=(_HF + r"embeddings\.patch_embeddings\.weight", _HF_BLOCK + r"dwconv\.weight"),
    rules=(
        parameters(_HF + r"embeddings\.patch_embeddings", "stem.0"),
        parameters(_HF + r"embeddings\.layernorm", "stem.1"),
        parameters(_HF + r"encoder\.stages\.(\d)\.downsampling_layer\.([01])", r"stages.\1.downsample.\2"),
        parameters(_HF_BLOCK + "dwconv", _BLOCK + "conv_dw"),
        parameters(_HF_BLOCK + "layernorm", _BLOCK + "norm"),
        parameters(_HF_BLOCK + r"pwconv([12])", _BLOCK + r"mlp.fc\3"),
        Rule(_HF_BLOCK + "layer_scale_parameter", _BLOCK + "gamma"),
        Rule(_HF_BLOCK + r"grn\.(weight|bias)", _BLOCK + r"mlp.grn.\3", change=_flat),
        parameters(_HF + "layernorm", "head.norm"),
        parameters("classifier", "head.fc"),
    ),
)

_TV_BLOCK = r"features\.([1357])\.(\d+)\."


def _stage(rest: str):
    """torchvision puts stages at odd places and what comes before them at even ones."""
    return lambda m: f"stages.{int(m[1]) // 2}." + m.expand(rest)


TORCHVISION = Layout(
    name="torchvision",
    family="ConvNeXt",
    signature=(r"features\.0\.0\.weight", _TV_BLOCK + r"block\.0\.weight", _TV_BLOCK + "layer_scale"),
    rules=(
        parameters(r"features\.0\.([01])", r"stem.\1"),
        Rule(r"features\.([246])\.([01])\.(weight|bias)", _stage(r"downsample.\2.\3")),
        Rule(_TV_BLOCK + r"block\.0\.(weight|bias)", _stage(r"blocks.\2.conv_dw.\3")),
        Rule(_TV_BLOCK + r"block\.2\.(weight|bias)", _stage(r"blocks.\2.norm.\3")),
        Rule(_TV_BLOCK + r"block\.3\.(weight|bias)", _stage(r"blocks.\2.mlp.fc1.\3")),
        Rule(_TV_BLOCK + r"block\.5\.(weight|bias)", _stage(r"blocks.\2.mlp.fc2.\3")),
        Rule(_TV_BLOCK + "layer_scale", _stage(r"blocks.\2.gamma"), change=_flat),
        parameters(r"classifier\.0", "head.norm"),
        parameters(r"classifier\.2", "head.fc"),
    ),
)

LAYOUTS = (OFFICIAL, HF, TORCHVISION, TIMM)
