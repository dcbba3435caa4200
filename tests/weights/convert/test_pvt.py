# SPDX-License-Identifier: Apache-2.0
"""Layouts of PVT and PVT v2: real names for PVT, others written by hand from timm's."""

from __future__ import annotations

import re

import numpy as np
import pytest

from passl.modeling.backbones import PVT, PVTv2
from passl.weights import load_weights
from passl.weights.convert import normalise, to_layout
from tests.weights.convert.cases import check_return, reference

TINY = {"embed_dims": [8, 16, 24, 32], "depths": [1, 2, 1, 1], "num_heads": [1, 2, 3, 4]}


def official_v2(name: str) -> str:
    """The authors' name for timm's."""
    name = re.sub(r"stages\.(\d)\.downsample\.", lambda m: f"patch_embed{int(m[1]) + 1}.", name)
    name = name.replace("patch_embed.", "patch_embed1.").replace("mlp.dwconv.", "mlp.dwconv.dwconv.")
    name = re.sub(r"stages\.(\d)\.blocks\.", lambda m: f"block{int(m[1]) + 1}.", name)
    return re.sub(r"stages\.(\d)\.norm\.", lambda m: f"norm{int(m[1]) + 1}.", name)


def hugging_face_v2(arrays):
    """timm's arrays under Hugging Face's names, keys and values apart."""
    result = {}
    for name, array in arrays.items():
        name = name.replace("patch_embed.", "stages.0.downsample.").replace("head.", "classifier.")
        name = re.sub(r"stages\.(\d)\.downsample\.(proj|norm)", r"pvt_v2.encoder.layers.\1.patch_embedding.\2", name)
        name = name.replace("stages.", "pvt_v2.encoder.layers.").replace("dwconv", "dwconv.dwconv")
        name = re.sub(r"(attn|embedding|layers\.\d)\.norm", r"\1.layer_norm", name)
        name = re.sub(r"norm([12])", r"layer_norm_\1", name).replace("fc", "dense").replace("attn.q.", "attn.query.")
        name = name.replace("attn.sr", "attn.spatial_reduction").replace("attn", "attention")
        if ".kv." in name:
            for part, piece in zip(("key", "value"), np.split(array, 2)):
                result[name.replace(".kv.", f".{part}.")] = piece
        else:
            result[name] = array
    return result


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("convert", [lambda a: {official_v2(n): x for n, x in a.items()}, hugging_face_v2])
def test_version_2_loads_with_nothing_missing(convert, linear):
    check_return(PVTv2(**TINY, linear=linear), convert)


@pytest.mark.parametrize("golden", ["timm__pvt_v2_b0", "timm__pvt_v2_b2_li"])
def test_layouts_of_version_2_are_recognised(golden):
    arrays = reference(golden)
    ours = normalise(arrays).arrays
    normal = normalise({official_v2(n): a for n, a in arrays.items()})
    assert normal.layout == "official (PVT v2)"
    assert normal.arrays.keys() == ours.keys()
    assert all(normal.arrays[name].tobytes() == array.tobytes() for name, array in ours.items())


def test_version_1_keeps_the_names_of_its_authors():
    model = PVT(**TINY, img_size=32)
    arrays = to_layout({f"architecture.{name}": tensor.numpy() for name, tensor in model.state_dict().items()})
    assert arrays.keys() == model.state_dict().keys()
    report = load_weights(PVT(**TINY, img_size=32), arrays)
    assert report.missing == report.unexpected == []


def test_hugging_faces_names_of_version_1_give_the_authors():
    normal = normalise(reference("hf__pvt_tiny"))
    assert normal.layout == "hf (PVT)"
    blocks = {f"block{i}.{j}." for i in (1, 2, 3, 4) for j in (0, 1)}
    assert {"cls_token", "norm.weight", "pos_embed4", "patch_embed4.proj.bias", "head.fc.weight"} < normal.arrays.keys()
    assert {m[0] for m in map(re.compile(r"block\d\.\d\.").match, normal.arrays) if m} == blocks
    assert "block3.1.attn.kv.weight" in normal.arrays
