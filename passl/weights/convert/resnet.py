# SPDX-License-Identifier: Apache-2.0
"""ResNet as Hugging Face and PaddleClas store it.  torchvision's names, which timm shares, need no table."""

from __future__ import annotations

import re

from passl.utils.errors import CheckpointError

from .table import Arrays, Layout, Rule, parameters

_HF = r"(?:resnet\.)?"
_HF_BLOCK = _HF + r"encoder\.stages\.(\d+)\.layers\.(\d+)\."
_NORM = "weight|bias|running_mean|running_var|num_batches_tracked"


def _hf_block(kind: str):
    """Names of a stage's block count from 1 at timm's for stages and convolutions."""
    return lambda m: f"layer{int(m[1]) + 1}.{m[2]}.{kind}{int(m[3]) + 1}.{m[4]}"


HF = Layout(
    name="hf",
    family="ResNet",
    signature=(_HF + r"embedder\.embedder\.convolution\.weight", _HF_BLOCK + r"layer\.(\d)\.convolution\.weight"),
    rules=(
        parameters(_HF + r"embedder\.embedder\.convolution", "conv1"),
        parameters(_HF + r"embedder\.embedder\.normalization", "bn1", _NORM),
        Rule(_HF_BLOCK + r"layer\.(\d)\.convolution\.(weight)", _hf_block("conv")),
        Rule(_HF_BLOCK + rf"layer\.(\d)\.normalization\.({_NORM})", _hf_block("bn")),
        Rule(
            _HF_BLOCK + r"shortcut\.convolution\.weight", lambda m: f"layer{int(m[1]) + 1}.{m[2]}.downsample.0.weight"
        ),
        Rule(
            _HF_BLOCK + rf"shortcut\.normalization\.({_NORM})",
            lambda m: f"layer{int(m[1]) + 1}.{m[2]}.downsample.1.{m[3]}",
        ),
        parameters(r"classifier\.1", "fc"),
    ),
)

_STAGES = {8: (2, 2, 2, 2), 16: (3, 4, 6, 3), 33: (3, 4, 23, 3), 50: (3, 8, 36, 3)}
_BLOCK = re.compile(r"blocks\.(\d+)\.(.*)")


def _by_stage(arrays: Arrays) -> Arrays:
    """PaddleClas numbers the blocks through; timm counts them within each of the four stages."""
    total = 1 + max(int(match[1]) for match in map(_BLOCK.fullmatch, arrays) if match)
    if total not in _STAGES:
        raise CheckpointError(f"a PaddleClas ResNet with {total} blocks is not known; expected {sorted(_STAGES)}")
    places = [f"layer{stage + 1}.{i}" for stage, depth in enumerate(_STAGES[total]) for i in range(depth)]
    return {(f"{places[int(m[1])]}.{m[2]}" if (m := _BLOCK.fullmatch(name)) else name): a for name, a in arrays.items()}


_PADDLE_NORM = "weight|bias|_mean|_variance"

PADDLECLAS = Layout(
    name="paddleclas",
    family="ResNet",
    orientation="paddle",
    signature=(r"stem\.0\.conv\.weight", r"blocks\.\d+\.conv0\.conv\.weight", r"blocks\.\d+\.conv0\.bn\._mean"),
    absent=(r"stem\.1\..*",),  # the "vd" variants are other networks
    prepare=_by_stage,
    rules=(
        parameters(r"stem\.0\.conv", "conv1"),
        parameters(r"stem\.0\.bn", "bn1", _PADDLE_NORM),
        Rule(r"(layer\d\.\d+)\.conv(\d)\.conv\.weight", lambda m: f"{m[1]}.conv{int(m[2]) + 1}.weight"),
        Rule(rf"(layer\d\.\d+)\.conv(\d)\.bn\.({_PADDLE_NORM})", lambda m: f"{m[1]}.bn{int(m[2]) + 1}.{m[3]}"),
        parameters(r"(layer\d\.\d+)\.short\.conv", r"\1.downsample.0"),
        parameters(r"(layer\d\.\d+)\.short\.bn", r"\1.downsample.1", _PADDLE_NORM),
    ),
)

LAYOUTS = (HF, PADDLECLAS)
