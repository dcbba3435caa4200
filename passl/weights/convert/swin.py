# SPDX-License-Identifier: Apache-2.0
"""Swin and Swin v2 as their authors and Hugging Face store them."""

from __future__ import annotations

import re

from .table import Layout, Rule, joined, parameters, split_bias

_MERGING = r"downsample\.(norm|reduction)\.(weight|bias)"


def _next_stage(match: re.Match[str]) -> str:
    """timm's name of the merging that others keep at the end of the stage before."""
    return f"layers.{int(match[1]) + 1}.downsample.{match[2]}.{match[3]}"


# https://github.com/microsoft/Swin-Transformer
OFFICIAL = Layout(
    name="official",
    family="Swin",
    signature=(r"layers\.0\.blocks\.0\.attn\.qkv\.weight", r"layers\.0\.downsample\.reduction\.weight"),
    rules=(Rule(r"layers\.(\d+)\." + _MERGING, _next_stage), parameters("head", "head.fc")),
)

_HF = r"(?:swin(?:v2)?\.)?"
_HF_BLOCK = _HF + r"encoder\.layers\.(\d+)\.blocks\.(\d+)\."
_HF_SELF = _HF_BLOCK + r"attention\.self\."
_BLOCK = r"layers.\1.blocks.\2."
_QKV = ("query", "key", "value")
_HF_COMMON = (
    parameters(_HF + r"embeddings\.patch_embeddings\.projection", "patch_embed.proj"),
    parameters(_HF + r"embeddings\.norm", "patch_embed.norm"),
    Rule(_HF + r"embeddings\.mask_token", "mask_token"),
    Rule(_HF + r"encoder\.layers\.(\d+)\." + _MERGING, _next_stage),
    parameters(_HF_BLOCK + "layernorm_before", _BLOCK + "norm1"),
    parameters(_HF_BLOCK + "layernorm_after", _BLOCK + "norm2"),
    parameters(_HF_BLOCK + r"attention\.output\.dense", _BLOCK + "attn.proj"),
    parameters(_HF_BLOCK + r"intermediate\.dense", _BLOCK + "mlp.fc1"),
    parameters(_HF_BLOCK + r"output\.dense", _BLOCK + "mlp.fc2"),
    Rule(_HF_SELF + r"(relative_position_index|relative_coords_table)", None),
    parameters(_HF + "layernorm", "norm"),
    parameters("classifier", "head.fc"),
)

HF = Layout(
    name="hf",
    family="Swin",
    signature=(_HF_SELF + r"query\.weight", _HF_SELF + "relative_position_bias_table"),
    rules=(
        *_HF_COMMON,
        *joined(_HF_SELF + "{}", _BLOCK + "attn.qkv", _QKV),
        Rule(_HF_SELF + "relative_position_bias_table", _BLOCK + "attn.relative_position_bias_table"),
    ),
)

HF_V2 = Layout(
    name="hf",
    family="Swin v2",
    signature=(_HF_SELF + r"query\.weight", _HF_SELF + "logit_scale"),
    rules=(
        *_HF_COMMON,
        *split_bias(_HF_SELF + "{}", _BLOCK + "attn", _QKV),
        Rule(_HF_SELF + "logit_scale", _BLOCK + "attn.logit_scale"),
        parameters(_HF_SELF + r"continuous_position_bias_mlp\.([02])", _BLOCK + r"attn.cpb_mlp.\3"),
    ),
)

LAYOUTS = (OFFICIAL, HF, HF_V2)
