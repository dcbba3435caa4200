# SPDX-License-Identifier: Apache-2.0
"""DINOv2's ViTs as their authors and Hugging Face store them.

The position of the class token, which timm adds to the token itself where there are registers, moves when the
positions are fitted to a model (``passl.weights.resize``).
"""

from __future__ import annotations

import numpy as np

from .table import Layout, Rule, joined, parameters

_BLOCK = r"blocks\.(\d+)\."


def _as_token(array: np.ndarray) -> np.ndarray:
    return array.reshape(1, 1, -1)


# https://github.com/facebookresearch/dinov2, models/vision_transformer.py
OFFICIAL = Layout(
    name="official",
    family="DINOv2",
    signature=("mask_token", "cls_token", _BLOCK + r"ls1\.gamma", _BLOCK + r"attn\.qkv\.weight"),
    rules=(
        Rule("register_tokens", "reg_token"),
        Rule("mask_token", "mask_token", change=_as_token),
        parameters(_BLOCK + r"mlp\.w12", r"blocks.\1.mlp.fc1"),
        parameters(_BLOCK + r"mlp\.w3", r"blocks.\1.mlp.fc2"),
    ),
)

_HF = r"(?:dinov2(?:_with_registers)?\.)?"
_LAYER = _HF + r"encoder\.layer\.(\d+)\."

HF = Layout(
    name="hf",
    family="DINOv2",
    signature=(_LAYER + r"layer_scale1\.lambda1", _LAYER + r"attention\.attention\.query\.weight"),
    rules=(
        Rule(_HF + r"embeddings\.(cls_token|mask_token)", r"\1", change=_as_token),
        Rule(_HF + r"embeddings\.register_tokens", "reg_token"),
        Rule(_HF + r"embeddings\.position_embeddings", "pos_embed"),
        parameters(_HF + r"embeddings\.patch_embeddings\.projection", "patch_embed.proj"),
        *joined(_LAYER + r"attention\.attention\.{}", r"blocks.\1.attn.qkv", ("query", "key", "value")),
        parameters(_LAYER + r"attention\.output\.dense", r"blocks.\1.attn.proj"),
        parameters(_LAYER + r"norm([12])", r"blocks.\1.norm\2"),
        Rule(_LAYER + r"layer_scale([12])\.lambda1", r"blocks.\1.ls\2.gamma"),
        parameters(_LAYER + r"mlp\.(fc[12])", r"blocks.\1.mlp.\2"),
        parameters(_LAYER + r"mlp\.weights_in", r"blocks.\1.mlp.fc1"),
        parameters(_LAYER + r"mlp\.weights_out", r"blocks.\1.mlp.fc2"),
        parameters(_HF + "layernorm", "norm"),
    ),
)

LAYOUTS = (OFFICIAL, HF)
