# SPDX-License-Identifier: Apache-2.0
"""MLP-Mixer and ResMLP as their authors store them.  timm's names, also gMLP's, need no table."""

from __future__ import annotations

import numpy as np

from .flax import conv_kernel, flax_dense, flax_norm
from .table import Layout, Rule, parameters

_FLAX = r"(?:params/)?"
_MIXER = _FLAX + r"MixerBlock_(\d+)/"

# https://github.com/google-research/vision_transformer, models_mixer.py
MIXER = Layout(
    name="google",
    family="MLP-Mixer",
    signature=(_FLAX + "stem/kernel", _MIXER + "token_mixing/Dense_0/kernel"),
    rules=(
        *flax_dense(_FLAX + "stem", "stem.proj", conv_kernel),
        *flax_norm(_MIXER + "LayerNorm_0", r"blocks.\1.norm1"),
        *flax_dense(_MIXER + "token_mixing/Dense_0", r"blocks.\1.mlp_tokens.fc1"),
        *flax_dense(_MIXER + "token_mixing/Dense_1", r"blocks.\1.mlp_tokens.fc2"),
        *flax_norm(_MIXER + "LayerNorm_1", r"blocks.\1.norm2"),
        *flax_dense(_MIXER + "channel_mixing/Dense_0", r"blocks.\1.mlp_channels.fc1"),
        *flax_dense(_MIXER + "channel_mixing/Dense_1", r"blocks.\1.mlp_channels.fc2"),
        *flax_norm(_FLAX + "pre_head_layer_norm", "norm"),
        *flax_dense(_FLAX + "head", "head"),
    ),
)


def _for_tokens(vector: np.ndarray) -> np.ndarray:
    return vector.reshape(1, 1, -1)


# https://github.com/facebookresearch/deit, resmlp_models.py
RESMLP = Layout(
    name="official",
    family="ResMLP",
    signature=(r"patch_embed\.proj\.weight", r"blocks\.0\.attn\.weight", r"blocks\.0\.norm1\.alpha"),
    rules=(
        parameters(r"patch_embed\.proj", "stem.proj"),
        Rule(r"blocks\.(\d+)\.gamma_([12])", r"blocks.\1.ls\2"),
        Rule(r"(.*norm[12]?\.(?:alpha|beta))", r"\1", change=_for_tokens),
        parameters(r"blocks\.(\d+)\.attn", r"blocks.\1.linear_tokens"),
        parameters(r"blocks\.(\d+)\.mlp\.(fc[12])", r"blocks.\1.mlp_channels.\2"),
    ),
)

LAYOUTS = (MIXER, RESMLP)
