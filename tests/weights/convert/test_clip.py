# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import numpy as np
import pytest
from paddle import nn

from passl.modeling.backbones import CLIPResNet, ViT
from passl.modeling.heads import ClsHead
from passl.modeling.model import Model
from passl.weights import load_weights, to_layout
from passl.weights.convert import normalise
from tests.weights.models import randomise, state

WIDTH, SPACE = 12, 7


def vit():
    backbone = ViT(img_size=16, patch_size=8, embed_dim=WIDTH, depth=2, num_heads=2, pre_norm=True, epsilon=1e-5)
    return randomise(Model(backbone, ClsHead(WIDTH, SPACE)))


def resnet(img_size=32):
    backbone = CLIPResNet(img_size=img_size, depths=[1, 2, 1, 1], width=2)
    return randomise(Model(backbone, ClsHead(64, SPACE)))


def without_bias(model):
    model.head.fc.bias.set_value(model.head.fc.bias * 0)
    return model


def torch_arrays(model):
    """The weights by our names without ``architecture.``, linear ones as [out, in]."""
    linear = {f"{n}.weight" for n, layer in model.named_sublayers() if isinstance(layer, nn.Linear)}
    arrays = {n: np.ascontiguousarray(a.T) if n in linear else a for n, a in state(model).items()}
    return {name.replace("architecture.", ""): array for name, array in arrays.items()}


def rename(arrays, *pairs):
    for pattern, to in pairs:
        arrays = {re.sub(pattern, to, name): array for name, array in arrays.items()}
    return arrays


def openclip_vit(model):
    arrays = rename(
        torch_arrays(model),
        ("^cls_token", "class_embedding"),
        ("^pos_embed", "positional_embedding"),
        (r"^patch_embed\.proj", "conv1"),
        ("^norm_pre", "ln_pre"),
        (r"^norm\.", "ln_post."),
        (r"^blocks\.", "transformer.resblocks."),
        (r"\.norm(\d)", r".ln_\1"),
        (r"attn\.qkv\.", "attn.in_proj_"),
        (r"attn\.proj", "attn.out_proj"),
        (r"mlp\.fc1", "mlp.c_fc"),
        (r"mlp\.fc2", "mlp.c_proj"),
    )
    arrays["class_embedding"], arrays["positional_embedding"] = (
        arrays["class_embedding"][0, 0],
        arrays["positional_embedding"][0],
    )
    del arrays["head.fc.bias"]
    arrays["proj"] = arrays.pop("head.fc.weight").T
    text = {"token_embedding.weight": np.ones((9, 4), "float32"), "logit_scale": np.ones((), "float32")}
    return {**{f"visual.{name}": array for name, array in arrays.items()}, **text}


def openclip_resnet(model):
    def name(ours):
        ours = re.sub(r"^stem\.conv(\d)\.(conv|bn)", r"\2\1", ours)
        ours = re.sub(r"^stages\.(\d)", lambda m: f"layer{int(m[1]) + 1}", ours)
        ours = re.sub(r"conv(\d)_(?:1x1|kxk)\.(conv|bn)", r"\2\1", ours)
        ours = ours.replace("shortcut.conv.conv", "downsample.0").replace("shortcut.conv.bn", "downsample.1")
        ours = ours.replace("attn_pool.pos_embed", "attnpool.positional_embedding")
        ours = re.sub(r"attn_pool\.([qkv])", r"attnpool.\1_proj", ours).replace("head.fc", "attnpool.c_proj")
        return ours.replace("._mean", ".running_mean").replace("._variance", ".running_var")

    return {f"visual.{name(ours)}": array for ours, array in torch_arrays(model).items()}


def hugging_face(model):
    arrays = rename(
        torch_arrays(model),
        (r"^patch_embed\.proj", "embeddings.patch_embedding"),
        ("^norm_pre", "pre_layrnorm"),
        (r"^norm\.", "post_layernorm."),
        (r"^blocks\.", "encoder.layers."),
        (r"\.norm(\d)", r".layer_norm\1"),
        (r"attn\.proj", "self_attn.out_proj"),
    )
    for joint in [n for n in arrays if "attn.qkv" in n]:
        for part, piece in zip("qkv", np.split(arrays.pop(joint), 3)):
            arrays[joint.replace("attn.qkv", f"self_attn.{part}_proj")] = piece
    arrays["embeddings.class_embedding"] = arrays.pop("cls_token")[0, 0]
    arrays["embeddings.position_embedding.weight"] = arrays.pop("pos_embed")[0]
    projection = arrays.pop("head.fc.weight")
    del arrays["head.fc.bias"]
    arrays = {f"vision_model.{name}": array for name, array in arrays.items()}
    return {
        **arrays,
        "visual_projection.weight": projection,
        "text_model.embeddings.token_embedding.weight": np.ones((9, 4), "float32"),
        "logit_scale": np.ones((), "float32"),
    }


CASES = {
    "openclip ViT": (vit, openclip_vit, "openclip (CLIP ViT)"),
    "openclip ResNet": (resnet, openclip_resnet, "openclip (CLIP ResNet)"),
    "hf ViT": (vit, hugging_face, "hf (CLIP ViT)"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_image_tower_is_found_in_the_whole_model(case):
    build, store, layout = CASES[case]
    source, target = without_bias(build()), build()
    arrays = store(source)
    assert normalise(arrays).layout == layout
    report = load_weights(target, arrays)
    assert report.missing == []
    assert report.fresh_head == []
    wrong = [name for name, array in state(source).items() if not np.array_equal(state(target)[name], array)]
    assert wrong == []


def test_a_resnet_goes_to_timm_and_back_exactly():
    model = resnet()
    timm = to_layout(state(model))
    assert {"head.pos_embed", "head.proj.weight", "stages.1.1.conv2_kxk.bn.running_mean"} <= set(timm)
    back = normalise(timm).arrays
    ours = {name.replace("architecture.", ""): array for name, array in state(model).items()}
    assert back.keys() == ours.keys()
    assert all(np.array_equal(back[name], array) for name, array in ours.items())


def test_a_resnets_positions_are_resized_on_the_way_in():
    source, target = resnet(), resnet(img_size=(32, 96))
    report = load_weights(target, openclip_resnet(source))
    assert report.missing == []
    found = target.architecture.attn_pool.pos_embed.numpy()
    expected = source.architecture.attn_pool.pos_embed.numpy()[[0, 1, 1, 1]]  # from one place to three
    np.testing.assert_allclose(found, expected, rtol=1e-5)
