# SPDX-License-Identifier: Apache-2.0
"""CvT as Hugging Face stores it.  The authors' names are ours."""

from __future__ import annotations

import re

from .table import Layout, Rule, parameters

_HF = r"(?:cvt\.)?encoder\.stages\.(\d)\."
_HF_LAYER = _HF + r"layers\.(\d+)\."
_HF_ATTENTION = _HF_LAYER + r"attention\.attention\."
_BLOCK = r"stage\1.blocks.\2."
_PARTS = "query|key|value"


def _convolved(match: re.Match[str]) -> str:
    stage, block, part, layer, kind = match.groups()
    layer = {"convolution": "conv", "normalization": "bn"}[layer]
    return f"stage{stage}.blocks.{block}.attn.conv_proj_{part[0]}.{layer}.{kind}"


def _projected(match: re.Match[str]) -> str:
    stage, block, part, kind = match.groups()
    return f"stage{stage}.blocks.{block}.attn.proj_{part[0]}.{kind}"


HF = Layout(
    name="hf",
    family="CvT",
    signature=(_HF_ATTENTION + r"projection_query\.weight",),
    rules=(
        Rule(_HF + "cls_token", r"stage\1.cls_token"),
        parameters(_HF + r"embedding\.convolution_embeddings\.projection", r"stage\1.patch_embed.proj"),
        parameters(_HF + r"embedding\.convolution_embeddings\.normalization", r"stage\1.patch_embed.norm"),
        Rule(
            _HF_ATTENTION + rf"convolution_projection_({_PARTS})\.convolution_projection"
            r"\.(convolution|normalization)\.(\w+)",
            _convolved,
        ),
        Rule(_HF_ATTENTION + rf"projection_({_PARTS})\.(\w+)", _projected),
        parameters(_HF_LAYER + r"attention\.output\.dense", _BLOCK + "attn.proj"),
        parameters(_HF_LAYER + r"intermediate\.dense", _BLOCK + "mlp.fc1"),
        parameters(_HF_LAYER + r"output\.dense", _BLOCK + "mlp.fc2"),
        parameters(_HF_LAYER + "layernorm_before", _BLOCK + "norm1"),
        parameters(_HF_LAYER + "layernorm_after", _BLOCK + "norm2"),
        parameters("layernorm", "norm"),
        parameters("classifier", "head"),
    ),
)

LAYOUTS = (HF,)
