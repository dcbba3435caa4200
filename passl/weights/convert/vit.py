# SPDX-License-Identifier: Apache-2.0
"""ViT, DeiT, DeiT III and parallel ViT as their authors, Hugging Face, torchvision and Google store them.

timm's own names, which DeiT's first paper, MAE, DINO and MoCo v3 share, need no table.
"""

from __future__ import annotations

import numpy as np

from .flax import conv_kernel, flax_dense, flax_norm
from .table import Arrays, Layout, Rule, joined, parameters

_BLOCK = r"blocks\.(\d+)\."

# https://github.com/facebookresearch/deit, models_v2.py: LayerScale without a layer of its own.
DEIT3 = Layout(
    name="official",
    family="DeiT III",
    signature=(_BLOCK + "gamma_1", _BLOCK + r"attn\.qkv\.weight", "cls_token"),
    absent=(r"blocks_token_only\..*", r".*relative_position.*", _BLOCK + "gamma_3", r".*q_bias", r".*proj_l.*"),
    rules=(Rule(_BLOCK + r"gamma_([12])", r"blocks.\1.ls\2.gamma"),),
)

# The same file's two-branch blocks; timm counts branches and allows any number.
PARALLEL = Layout(
    name="official",
    family="parallel ViT",
    signature=(_BLOCK + r"attn1\.qkv\.weight", _BLOCK + r"norm11\.weight"),
    rules=(
        *(parameters(_BLOCK + f"norm1{s}", rf"blocks.\1.attns.{k}.norm") for k, s in enumerate(("", "1"))),
        *(
            parameters(_BLOCK + rf"attn{s}\.(qkv|proj)", rf"blocks.\1.attns.{k}.attn.\2")
            for k, s in enumerate(("", "1"))
        ),
        *(parameters(_BLOCK + f"norm2{s}", rf"blocks.\1.ffns.{k}.norm") for k, s in enumerate(("", "1"))),
        *(parameters(_BLOCK + rf"mlp{s}\.(fc[12])", rf"blocks.\1.ffns.{k}.mlp.\2") for k, s in enumerate(("", "1"))),
        *(Rule(_BLOCK + f"gamma_1{s}", rf"blocks.\1.attns.{k}.ls.gamma") for k, s in enumerate(("", "_1"))),
        *(Rule(_BLOCK + f"gamma_2{s}", rf"blocks.\1.ffns.{k}.ls.gamma") for k, s in enumerate(("", "_1"))),
    ),
)

# transformers up to 4 writes the longer names, 5 the shorter ones.
_HF = r"(?:(?:vit|deit)\.)?"
_HF_LAYER = _HF + r"(?:encoder\.layer|layers)\.(\d+)\."
_HF_QKV = tuple(rf"(?:attention\.{name}|{name[0]}_proj)" for name in ("query", "key", "value"))

HF = Layout(
    name="hf",
    family="ViT, DeiT",
    signature=(_HF_LAYER + rf"attention\.{_HF_QKV[0]}\.weight", _HF_LAYER + r"layernorm_before\.weight"),
    rules=(
        Rule(_HF + r"embeddings\.cls_token", "cls_token"),
        Rule(_HF + r"embeddings\.distillation_token", "dist_token"),
        Rule(_HF + r"embeddings\.position_embeddings", "pos_embed"),
        Rule(_HF + r"embeddings\.mask_token", None),
        parameters(_HF + r"embeddings\.patch_embeddings\.projection", "patch_embed.proj"),
        *joined(_HF_LAYER + r"attention\.{}", r"blocks.\1.attn.qkv", _HF_QKV),
        parameters(_HF_LAYER + r"attention\.(?:output\.dense|o_proj)", r"blocks.\1.attn.proj"),
        parameters(_HF_LAYER + r"layernorm_before", r"blocks.\1.norm1"),
        parameters(_HF_LAYER + r"layernorm_after", r"blocks.\1.norm2"),
        parameters(_HF_LAYER + r"(?:intermediate\.dense|mlp\.fc1)", r"blocks.\1.mlp.fc1"),
        parameters(_HF_LAYER + r"(?:output\.dense|mlp\.fc2)", r"blocks.\1.mlp.fc2"),
        parameters(_HF + "layernorm", "norm"),
        parameters(r"(?:cls_)?classifier", "head"),
        parameters("distillation_classifier", "head_dist"),
        Rule(_HF + r"pooler\..*", None),
    ),
)

_TV_LAYER = r"encoder\.layers\.encoder_layer_(\d+)\."

TORCHVISION = Layout(
    name="torchvision",
    family="ViT",
    signature=("class_token", r"encoder\.pos_embedding", _TV_LAYER + r"self_attention\.in_proj_weight"),
    rules=(
        Rule("class_token", "cls_token"),
        Rule(r"encoder\.pos_embedding", "pos_embed"),
        parameters("conv_proj", "patch_embed.proj"),
        Rule(_TV_LAYER + r"self_attention\.in_proj_(weight|bias)", r"blocks.\1.attn.qkv.\2"),
        parameters(_TV_LAYER + r"self_attention\.out_proj", r"blocks.\1.attn.proj"),
        parameters(_TV_LAYER + r"ln_([12])", r"blocks.\1.norm\2"),
        parameters(_TV_LAYER + r"mlp\.(?:0|linear_1)", r"blocks.\1.mlp.fc1"),
        parameters(_TV_LAYER + r"mlp\.(?:3|linear_2)", r"blocks.\1.mlp.fc2"),
        parameters(r"encoder\.ln", "norm"),
        parameters(r"heads\.head", "head"),
    ),
)

_FLAX = r"(?:params/)?(?:img/)?"
_FLAX_BLOCK = _FLAX + r"Transformer/encoderblock_(\d+)/"


def _to_heads(kernel: np.ndarray) -> np.ndarray:
    return kernel.reshape(kernel.shape[0], -1).T  # [D, H, d] -> [H * d, D]


def _from_heads(kernel: np.ndarray) -> np.ndarray:
    return kernel.reshape(-1, kernel.shape[-1]).T  # [H, d, D] -> [D, H * d]


def _flat(bias: np.ndarray) -> np.ndarray:
    return bias.reshape(-1)


def _unstack(arrays: Arrays) -> Arrays:
    """big_vision's scanned models keep all blocks in one array with the layer as first axis."""
    result: Arrays = {}
    for name, array in arrays.items():
        if "/encoderblock/" in name:
            for i, layer in enumerate(array):
                result[name.replace("/encoderblock/", f"/encoderblock_{i}/")] = layer
        else:
            result[name] = array
    return result


_ATTENTION = _FLAX_BLOCK + r"MultiHeadDotProductAttention_\d/"

# vision_transformer numbers the layers of a block through (LayerNorm_0, ..._1, LayerNorm_2, MlpBlock_3),
# big_vision by kind (LayerNorm_0, LayerNorm_1, MlpBlock_0).
GOOGLE = Layout(
    name="google",
    family="ViT",
    signature=(_FLAX + "embedding/kernel", _FLAX + r"Transformer/encoderblock(_0)?/MlpBlock_\d/Dense_0/kernel"),
    prepare=_unstack,
    rules=(
        Rule(_FLAX + "cls", "cls_token"),
        Rule(_FLAX + "(?:Transformer/posembed_input/)?pos_embedding", "pos_embed"),
        *flax_dense(_FLAX + "embedding", "patch_embed.proj", conv_kernel),
        *flax_norm(_FLAX_BLOCK + "LayerNorm_0", r"blocks.\1.norm1"),
        *flax_norm(_FLAX_BLOCK + "LayerNorm_[12]", r"blocks.\1.norm2"),
        *(
            Rule(_ATTENTION + f"{name}/{leaf}", rf"blocks.\1.attn.qkv.{to}", part=(i, 3), change=change)
            for i, name in enumerate(("query", "key", "value"))
            for leaf, to, change in (("kernel", "weight", _to_heads), ("bias", "bias", _flat))
        ),
        Rule(_ATTENTION + "out/kernel", r"blocks.\1.attn.proj.weight", change=_from_heads),
        Rule(_ATTENTION + "out/bias", r"blocks.\1.attn.proj.bias"),
        *flax_dense(_FLAX_BLOCK + r"MlpBlock_\d/Dense_0", r"blocks.\1.mlp.fc1"),
        *flax_dense(_FLAX_BLOCK + r"MlpBlock_\d/Dense_1", r"blocks.\1.mlp.fc2"),
        *flax_norm(_FLAX + "Transformer/encoder_norm", "norm"),
        *flax_dense(_FLAX + "head", "head"),
        Rule(_FLAX + "pre_logits/.*", None),
    ),
)

LAYOUTS = (PARALLEL, DEIT3, HF, TORCHVISION, GOOGLE)
