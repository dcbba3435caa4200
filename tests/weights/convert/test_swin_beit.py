# SPDX-License-Identifier: Apache-2.0
"""Layouts of Swin, Swin v2 and BEiT, written by hand from timm's."""

from __future__ import annotations

import re

import numpy as np
import pytest

from passl.modeling.backbones import BEiT, Swin, SwinV2
from passl.weights.convert import normalise, to_layout
from tests.weights.convert.cases import check_return, reference, renamed, same


def small(golden):
    """The reference's arrays, made small, but with joint projections of three equal parts."""
    arrays = reference(golden)
    for name, array in arrays.items():
        if name.endswith("qkv.weight"):
            width = array.shape[1]
            arrays[name] = np.random.RandomState(width).standard_normal((3 * width, width)).astype(np.float32)
            bias = name.replace("weight", "bias")
            if bias in arrays:
                arrays[bias] = arrays[name][:, 0] + 1.0
    return arrays


SWIN, SWIN_V2 = small("timm__swin_tiny_patch4_window7_224"), small("timm__swinv2_tiny_window8_256")
BEIT = small("timm__beit_base_patch16_224")


def end_of_stage(arrays, root=""):
    """Merging at the end of the stage before."""
    merging = re.compile(r"layers\.(\d)\.downsample\.(.*)")
    return {
        merging.sub(lambda m: f"{root}layers.{int(m[1]) - 1}.downsample.{m[2]}", name): array
        for name, array in arrays.items()
    }


def apart(arrays, qkv, to):
    """q, k and v in tensors of their own."""
    result = {}
    for name, array in arrays.items():
        match = re.fullmatch(qkv, name)
        if match:
            for part, piece in zip(("query", "key", "value"), np.split(array, 3)):
                result[match.expand(to).format(part)] = piece
        else:
            result[name] = array
    return result


def official(arrays):
    arrays = renamed(end_of_stage(arrays), [(r"head\.fc\.(.*)", r"head.\1")])
    return {**arrays, "layers.0.blocks.0.attn.relative_position_index": np.zeros([4, 4], "int64")}


def hugging_face_swin(arrays, model):
    block, ours = rf"{model}.encoder.layers.\1.blocks.\2.", r"layers\.(\d)\.blocks\.(\d+)\."
    arrays = apart(
        end_of_stage(arrays, f"{model}.encoder."), ours + r"attn\.qkv\.(.*)", block + r"attention.self.{}.\3"
    )
    return renamed(
        arrays,
        [
            (r"patch_embed\.proj\.(.*)", rf"{model}.embeddings.patch_embeddings.projection.\1"),
            (r"patch_embed\.norm\.(.*)", rf"{model}.embeddings.norm.\1"),
            (ours + r"norm1\.(.*)", block + r"layernorm_before.\3"),
            (ours + r"norm2\.(.*)", block + r"layernorm_after.\3"),
            (ours + r"attn\.proj\.(.*)", block + r"attention.output.dense.\3"),
            (ours + r"attn\.q_bias", block + r"attention.self.query.bias"),
            (ours + r"attn\.v_bias", block + r"attention.self.value.bias"),
            (ours + r"attn\.cpb_mlp\.(.*)", block + r"attention.self.continuous_position_bias_mlp.\3"),
            (ours + r"attn\.(.*)", block + r"attention.self.\3"),
            (ours + r"mlp\.fc1\.(.*)", block + r"intermediate.dense.\3"),
            (ours + r"mlp\.fc2\.(.*)", block + r"output.dense.\3"),
            (r"norm\.(.*)", rf"{model}.layernorm.\1"),
            (r"head\.fc\.(.*)", r"classifier.\1"),
        ],
    )


def hugging_face_beit(arrays):
    block, ours = r"beit.encoder.layer.\1.", r"blocks\.(\d+)\."
    arrays = apart(arrays, ours + r"attn\.qkv\.(.*)", block + r"attention.attention.{}.\2")
    table = "relative_position_bias.relative_position_bias_table"
    return renamed(
        arrays,
        [
            (r"(cls|mask)_token", r"beit.embeddings.\1_token"),
            (r"patch_embed\.proj\.(.*)", r"beit.embeddings.patch_embeddings.projection.\1"),
            (ours + r"norm1\.(.*)", block + r"layernorm_before.\2"),
            (ours + r"norm2\.(.*)", block + r"layernorm_after.\2"),
            (ours + r"attn\.proj\.(.*)", block + r"attention.output.dense.\2"),
            (ours + r"attn\.q_bias", block + r"attention.attention.query.bias"),
            (ours + r"attn\.v_bias", block + r"attention.attention.value.bias"),
            (ours + r"attn\.relative_position_bias_table", block + r"attention.attention." + table),
            (ours + r"gamma_(\d)", block + r"lambda_\2"),
            (ours + r"mlp\.fc1\.(.*)", block + r"intermediate.dense.\2"),
            (ours + r"mlp\.fc2\.(.*)", block + r"output.dense.\2"),
            (r"rel_pos_bias\.relative_position_bias_table", f"beit.encoder.{table}"),
            (r"fc_norm\.(.*)", r"beit.pooler.layernorm.\1"),
            (r"norm\.(.*)", r"layernorm.\1"),
            (r"head\.(.*)", r"classifier.\1"),
        ],
    )


CASES = {
    "official swin": (SWIN, official(SWIN), "official (Swin)"),
    "official swin v2": (SWIN_V2, official(SWIN_V2), "official (Swin)"),
    "hf swin": (SWIN, hugging_face_swin(SWIN, "swin"), "hf (Swin)"),
    "hf swin v2": (SWIN_V2, hugging_face_swin(SWIN_V2, "swinv2"), "hf (Swin v2)"),
    "hf beit": (BEIT, hugging_face_beit(BEIT), "hf (BEiT)"),
}


@pytest.mark.parametrize("case", list(CASES))
def test_layouts_come_back_as_timms(case):
    timm, foreign, layout = CASES[case]
    normal = normalise(foreign)
    assert normal.layout == layout
    ours = {n if n.startswith("head.") else f"architecture.{n}": a for n, a in normal.arrays.items()}
    back = {n: a for n, a in to_layout(ours).items() if not n.endswith("relative_position_index")}
    same(back, timm)


@pytest.mark.parametrize(
    ("model", "convert"),
    [
        (Swin(32, 4, 3, 8, [2, 2], [2, 4], 4), official),
        (Swin(32, 4, 3, 8, [2, 2], [2, 4], 4), lambda arrays: hugging_face_swin(arrays, "swin")),
        (SwinV2(32, 4, 3, 8, [2, 2], [2, 4], 4), official),
        (SwinV2(32, 4, 3, 8, [2, 2], [2, 4], 4), lambda arrays: hugging_face_swin(arrays, "swinv2")),
        (BEiT(32, 8, 3, 16, 2, 2), hugging_face_beit),
        (BEiT(32, 8, 3, 16, 2, 2, rel_pos_bias="shared", use_mask_token=True, global_pool="token"), hugging_face_beit),
    ],
    ids=["swin official", "swin hf", "swin v2 official", "swin v2 hf", "beit hf", "beit hf pre-training"],
)
def test_models_load_with_nothing_missing(model, convert):
    check_return(model, convert)
