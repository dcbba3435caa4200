# SPDX-License-Identifier: Apache-2.0
"""PVT and PVT v2 as their authors and Hugging Face store them.  Our names are the authors' for PVT, timm's for v2."""

from __future__ import annotations

import re

from .table import Layout, Rule, joined, parameters

_KEY_VALUE = ("key", "value")
_KINDS = r"(weight|bias)"


def _stage(start: str, rest: str, shift: int):
    """``start``, the number of the stage plus ``shift``, then the template ``rest``."""
    return lambda match: f"{start}{int(match[1]) + shift}" + match.expand(rest)


def _patches(first: int):
    """timm keeps the patches of the first stage, which others number ``first``, outside the stages."""

    def name(match: re.Match[str]) -> str:
        stage, layer = int(match[1]) - first, match[2].replace("layer_norm", "norm")
        return f"{f'stages.{stage}.downsample' if stage else 'patch_embed'}.{layer}.{match[3]}"

    return name


_V2_BLOCK = r"block(\d)\.(\d+)\."

# https://github.com/whai362/PVT, v2
OFFICIAL_V2 = Layout(
    name="official",
    family="PVT v2",
    signature=(r"patch_embed1\.proj\.weight", _V2_BLOCK + r"mlp\.dwconv\.dwconv\.weight"),
    rules=(
        Rule(rf"patch_embed(\d)\.(proj|norm)\.{_KINDS}", _patches(1)),
        Rule(_V2_BLOCK + rf"mlp\.dwconv\.dwconv\.{_KINDS}", _stage("stages.", r".blocks.\2.mlp.dwconv.\3", -1)),
        Rule(_V2_BLOCK + "(.*)", _stage("stages.", r".blocks.\2.\3", -1)),
        Rule(rf"norm(\d)\.{_KINDS}", _stage("stages.", r".norm.\2", -1)),
    ),
)

_HF_V2 = r"(?:pvt_v2\.)?encoder\.layers\.(\d)\."
_HF_V2_BLOCK = _HF_V2 + r"blocks\.(\d+)\."
_BLOCK = r"stages.\1.blocks.\2."

HF_V2 = Layout(
    name="hf",
    family="PVT v2",
    signature=(_HF_V2 + r"patch_embedding\.proj\.weight", _HF_V2_BLOCK + r"mlp\.dwconv\.dwconv\.weight"),
    rules=(
        Rule(_HF_V2 + rf"patch_embedding\.(proj|layer_norm)\.{_KINDS}", _patches(0)),
        parameters(_HF_V2 + "layer_norm", r"stages.\1.norm"),
        parameters(_HF_V2_BLOCK + r"layer_norm_([12])", _BLOCK + r"norm\3"),
        parameters(_HF_V2_BLOCK + r"attention\.query", _BLOCK + "attn.q"),
        *joined(_HF_V2_BLOCK + r"attention\.{}", _BLOCK + "attn.kv", _KEY_VALUE),
        parameters(_HF_V2_BLOCK + r"attention\.proj", _BLOCK + "attn.proj"),
        parameters(_HF_V2_BLOCK + r"attention\.spatial_reduction", _BLOCK + "attn.sr"),
        parameters(_HF_V2_BLOCK + r"attention\.layer_norm", _BLOCK + "attn.norm"),
        parameters(_HF_V2_BLOCK + r"mlp\.dense([12])", _BLOCK + r"mlp.fc\3"),
        parameters(_HF_V2_BLOCK + r"mlp\.dwconv\.dwconv", _BLOCK + "mlp.dwconv"),
        parameters("classifier", "head"),
    ),
)

_HF = r"(?:pvt\.)?encoder\."
_HF_PATCHES = _HF + r"patch_embeddings\.(\d)\."
_HF_BLOCK = _HF + r"block\.(\d)\.(\d+)\."

HF = Layout(
    name="hf",
    family="PVT",
    signature=(_HF_PATCHES + "position_embeddings", _HF_BLOCK + r"attention\.self\.query\.weight"),
    rules=(
        Rule(_HF_PATCHES + "position_embeddings", _stage("pos_embed", "", 1)),
        Rule(_HF_PATCHES + "cls_token", "cls_token"),
        Rule(_HF_PATCHES + rf"projection\.{_KINDS}", _stage("patch_embed", r".proj.\2", 1)),
        Rule(_HF_PATCHES + rf"layer_norm\.{_KINDS}", _stage("patch_embed", r".norm.\2", 1)),
        Rule(_HF_BLOCK + rf"layer_norm_([12])\.{_KINDS}", _stage("block", r".\2.norm\3.\4", 1)),
        Rule(_HF_BLOCK + rf"attention\.self\.query\.{_KINDS}", _stage("block", r".\2.attn.q.\3", 1)),
        *(
            Rule(_HF_BLOCK + rf"attention\.self\.{n}\.{_KINDS}", _stage("block", r".\2.attn.kv.\3", 1), part=(i, 2))
            for i, n in enumerate(_KEY_VALUE)
        ),
        Rule(_HF_BLOCK + rf"attention\.self\.sequence_reduction\.{_KINDS}", _stage("block", r".\2.attn.sr.\3", 1)),
        Rule(_HF_BLOCK + rf"attention\.self\.layer_norm\.{_KINDS}", _stage("block", r".\2.attn.norm.\3", 1)),
        Rule(_HF_BLOCK + rf"attention\.output\.dense\.{_KINDS}", _stage("block", r".\2.attn.proj.\3", 1)),
        Rule(_HF_BLOCK + rf"mlp\.dense([12])\.{_KINDS}", _stage("block", r".\2.mlp.fc\3.\4", 1)),
        parameters(_HF + "layer_norm", "norm"),
        parameters("classifier", "head"),
    ),
)

LAYOUTS = (OFFICIAL_V2, HF_V2, HF)
