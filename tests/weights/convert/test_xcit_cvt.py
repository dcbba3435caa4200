# SPDX-License-Identifier: Apache-2.0
"""Layouts of XCiT and CvT, written by hand from ours."""

from __future__ import annotations

import re

import numpy as np
import paddle

from passl.modeling.backbones import CvT, XCiT
from passl.weights import load_weights
from passl.weights.convert import normalise, to_layout
from tests.parity.golden import Golden


def xcit():
    paddle.seed(0)
    return XCiT(img_size=32, patch_size=8, embed_dim=32, depth=1, num_heads=4)


def official_xcit(arrays):
    """Positions under their old name, q, k and v of class attention in one tensor."""
    joined = {}
    for name, array in arrays.items():
        match = re.fullmatch(r"(cls_attn_blocks\.\d\.attn\.)([qkv])\.(.*)", name)
        if match:
            joined.setdefault(f"{match[1]}qkv.{match[3]}", {})[match[2]] = array
        else:
            joined[name.replace("pos_embed.", "pos_embeder.")] = array
    return {
        name: np.concatenate([value[c] for c in "qkv"]) if isinstance(value, dict) else value
        for name, value in joined.items()
    }


def timm_arrays(model):
    return to_layout({f"architecture.{name}": tensor.numpy().copy() for name, tensor in model.state_dict().items()})


def check_loads(model, arrays):
    state = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    for parameter in model.parameters():
        parameter.set_value(parameter + 1.0)
    report = load_weights(model, arrays)
    assert report.missing == report.unexpected == []
    assert all((tensor.numpy() == state[name]).all() for name, tensor in model.state_dict().items())


def test_xcits_own_names_and_joint_class_attention_are_read():
    model = xcit()
    arrays = official_xcit(timm_arrays(model))
    assert arrays["cls_attn_blocks.1.attn.qkv.weight"].shape == (96, 32)
    assert normalise(arrays).layout == "official (XCiT)"
    check_loads(model, arrays)


def test_a_paddle_file_with_joint_class_attention_is_split_along_the_outputs():
    model = xcit()
    arrays = official_xcit(timm_arrays(model))
    linear = {f"{n}.weight" for n, layer in model.named_sublayers() if isinstance(layer, paddle.nn.Linear)}
    turned = {
        name: array.T if name in linear or name.endswith("attn.qkv.weight") else array for name, array in arrays.items()
    }
    turned = {n.replace("running_mean", "_mean").replace("running_var", "_variance"): a for n, a in turned.items()}
    assert turned["cls_attn_blocks.1.attn.qkv.weight"].shape == (32, 96)
    check_loads(model, turned)


def test_timms_xcit_needs_no_table():
    check_loads(xcit(), timm_arrays(xcit()))


def hugging_face_cvt(arrays):
    rules = [
        (r"stage(\d)\.cls_token", r"cvt.encoder.stages.\1.cls_token"),
        (r"stage(\d)\.patch_embed\.proj\.", r"cvt.encoder.stages.\1.embedding.convolution_embeddings.projection."),
        (r"stage(\d)\.patch_embed\.norm\.", r"cvt.encoder.stages.\1.embedding.convolution_embeddings.normalization."),
        (r"stage(\d)\.blocks\.", r"cvt.encoder.stages.\1.layers."),
        (r"attn\.conv_proj_(\w)\.", r"attention.attention.convolution_projection_\1.convolution_projection."),
        (r"attn\.proj_(\w)\.", r"attention.attention.projection_\1."),
        (r"projection_q\.", "projection_query."),
        (r"projection_k\.", "projection_key."),
        (r"projection_v\.", "projection_value."),
        (r"convolution_projection\.conv\.", "convolution_projection.convolution."),
        (r"convolution_projection\.bn\.", "convolution_projection.normalization."),
        (r"attn\.proj\.", "attention.output.dense."),
        (r"mlp\.fc1\.", "intermediate.dense."),
        (r"mlp\.fc2\.", "output.dense."),
        (r"norm1\.", "layernorm_before."),
        (r"norm2\.", "layernorm_after."),
        (r"^norm\.", "layernorm."),
    ]
    result = {}
    for name, array in arrays.items():
        for pattern, to in rules:
            name = re.sub(pattern, to, name)
        result[name] = array
    return result


def test_hugging_faces_cvt_is_read():
    paddle.seed(0)
    model = CvT(dims=[8, 16, 24], depths=[1, 1, 2], num_heads=[1, 2, 3])
    arrays = hugging_face_cvt(timm_arrays(model))
    reference = {re.sub(r"layers\.\d+\.", "layers.0.", name) for name, *_ in Golden("hf__cvt_13").meta["entries"]}
    assert {re.sub(r"layers\.\d+\.", "layers.0.", name) for name in arrays} == reference - {
        "classifier.weight",
        "classifier.bias",
    }
    assert normalise(arrays).layout == "hf (CvT)"
    check_loads(model, arrays)


def test_the_authors_cvt_needs_no_table():
    paddle.seed(0)
    model = CvT(dims=[8, 16, 24], depths=[1, 1, 2], num_heads=[1, 2, 3])
    arrays = timm_arrays(model)
    entries = {re.sub(r"blocks\.\d+\.", "blocks.0.", name) for name, *_ in Golden("cvt__cvt_13").meta["entries"]}
    assert {re.sub(r"blocks\.\d+\.", "blocks.0.", name) for name in arrays} == entries - {"head.weight", "head.bias"}
    check_loads(model, arrays)
