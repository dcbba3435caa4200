# SPDX-License-Identifier: Apache-2.0
"""Layers that mean the same thing in every model.  B batch, N tokens, D width, H heads, d head width."""

from .attention import Attention, ClassAttention
from .block import Block
from .drop import DropPath, linear_drop_path
from .hmlp_stem import HMLPStem, stem_projection
from .linear import Linear
from .maps import as_map, as_tokens, prepend
from .mlp import Mlp, QuickGELU, SwiGLU
from .norm import LayerNorm2d, LayerScale, SyncBatchNorm, convert_sync_batchnorm
from .parallel_block import ParallelBlock
from .patch_embed import PatchEmbed, check_image_size, pair, replace_masked, select_tokens
from .pos_embed import resize_pos_embed, sincos_2d
from .squeeze_excitation import SqueezeExcitation
from .window import Windows

__all__ = [
    "Attention",
    "Block",
    "ClassAttention",
    "DropPath",
    "HMLPStem",
    "LayerNorm2d",
    "LayerScale",
    "Linear",
    "Mlp",
    "ParallelBlock",
    "PatchEmbed",
    "QuickGELU",
    "SqueezeExcitation",
    "SwiGLU",
    "SyncBatchNorm",
    "Windows",
    "as_map",
    "as_tokens",
    "check_image_size",
    "convert_sync_batchnorm",
    "linear_drop_path",
    "pair",
    "prepend",
    "replace_masked",
    "resize_pos_embed",
    "select_tokens",
    "sincos_2d",
    "stem_projection",
]
