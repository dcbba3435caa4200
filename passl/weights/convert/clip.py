# SPDX-License-Identifier: Apache-2.0
"""CLIP's image towers as OpenAI and OpenCLIP, and Hugging Face, store them; text towers are left out.

The projection into the space of images and texts becomes the classifier: load it with ``num_classes`` equal to the
width of that space.
"""

from __future__ import annotations

import numpy as np

from .table import Arrays, Layout, Rule, joined, parameters


def _with_bias(projection: str):
    """The projection has no bias, a classifier has: zeros."""

    def prepare(arrays: Arrays) -> Arrays:
        if projection in arrays:
            axis = -1 if projection == "proj" else 0
            return {**arrays, "head.bias": np.zeros(arrays[projection].shape[axis], np.float32)}
        return arrays

    return prepare


def _as_token(array: np.ndarray) -> np.ndarray:
    return array.reshape(1, 1, -1)


def _as_table(array: np.ndarray) -> np.ndarray:
    return array[None]


def _turned(array: np.ndarray) -> np.ndarray:
    return array.T


_BLOCK = r"transformer\.resblocks\.(\d+)\."

# https://github.com/openai/CLIP, model.py, and https://github.com/mlfoundations/open_clip
VIT = Layout(
    name="openclip",
    family="CLIP ViT",
    signature=("class_embedding", "positional_embedding", _BLOCK + r"attn\.in_proj_weight"),
    prepare=_with_bias("proj"),
    rules=(
        Rule("class_embedding", "cls_token", change=_as_token),
        Rule("positional_embedding", "pos_embed", change=_as_table),
        Rule(r"conv1\.weight", "patch_embed.proj.weight"),
        parameters("ln_pre", "norm_pre"),
        parameters(_BLOCK + r"ln_([12])", r"blocks.\1.norm\2"),
        Rule(_BLOCK + r"attn\.in_proj_(weight|bias)", r"blocks.\1.attn.qkv.\2"),
        parameters(_BLOCK + r"attn\.out_proj", r"blocks.\1.attn.proj"),
        parameters(_BLOCK + r"mlp\.c_fc", r"blocks.\1.mlp.fc1"),
        parameters(_BLOCK + r"mlp\.c_proj", r"blocks.\1.mlp.fc2"),
        parameters("ln_post", "norm"),
        Rule("proj", "head.weight", change=_turned),
    ),
)

_STATE = "weight|bias|running_mean|running_var|num_batches_tracked"


def _stage(match) -> str:
    """timm counts stages from 0, the authors layers from 1."""
    layer, block, kind, number, leaf = match.groups()
    name = f"conv{number}_{'kxk' if number == '2' else '1x1'}"
    return f"stages.{int(layer) - 1}.{block}.{name}.{kind}.{leaf}"


def _shortcut(match) -> str:
    layer, block, index, leaf = match.groups()
    return f"stages.{int(layer) - 1}.{block}.shortcut.conv.{'conv' if index == '0' else 'bn'}.{leaf}"


RESNET = Layout(
    name="openclip",
    family="CLIP ResNet",
    signature=(r"attnpool\.positional_embedding", r"layer1\.0\.conv1\.weight"),
    rules=(
        Rule(rf"(conv|bn)([123])\.({_STATE})", r"stem.conv\2.\1.\3"),
        Rule(rf"layer([1-4])\.(\d+)\.(conv|bn)([123])\.({_STATE})", _stage),
        Rule(rf"layer([1-4])\.(\d+)\.downsample\.([01])\.({_STATE})", _shortcut),
        Rule(r"attnpool\.positional_embedding", "head.pos_embed"),
        parameters(r"attnpool\.([qkv])_proj", r"head.\1"),
        parameters(r"attnpool\.c_proj", "head.proj"),
    ),
)

_HF = r"(?:vision_model\.)?"
_LAYER = _HF + r"encoder\.layers\.(\d+)\."

HF = Layout(
    name="hf",
    family="CLIP ViT",
    signature=(_HF + r"pre_layrnorm\.weight", _LAYER + r"self_attn\.q_proj\.weight"),
    prepare=_with_bias("visual_projection.weight"),
    rules=(
        Rule(r"text_(model|projection)\..*", None),
        Rule(r"logit_scale|.*\.position_ids", None),
        Rule(_HF + r"embeddings\.class_embedding", "cls_token", change=_as_token),
        Rule(_HF + r"embeddings\.position_embedding\.weight", "pos_embed", change=_as_table),
        Rule(_HF + r"embeddings\.patch_embedding\.weight", "patch_embed.proj.weight"),
        parameters(_HF + "pre_layrnorm", "norm_pre"),  # so it is written there
        *joined(_LAYER + r"self_attn\.{}_proj", r"blocks.\1.attn.qkv", ("q", "k", "v")),
        parameters(_LAYER + r"self_attn\.out_proj", r"blocks.\1.attn.proj"),
        parameters(_LAYER + r"layer_norm([12])", r"blocks.\1.norm\2"),
        parameters(_LAYER + r"mlp\.(fc[12])", r"blocks.\1.mlp.\2"),
        parameters(_HF + "post_layernorm", "norm"),
        Rule(r"visual_projection\.weight", "head.weight"),
    ),
)

LAYOUTS = (VIT, RESNET, HF)
