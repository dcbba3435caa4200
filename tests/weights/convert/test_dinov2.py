# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.vit import ViT
from passl.weights import load_weights
from passl.weights.convert import normalise
from tests.weights.models import randomise, state

TINY = {"img_size": 28, "patch_size": 14, "embed_dim": 12, "depth": 2, "num_heads": 2, "init_values": 1.0}
WITH_REGISTERS = {"num_register_tokens": 4, "no_embed_class": True}
GIANT = {"mlp_ratio": 2.0, "act": "swiglu"}


def model(**arguments):
    return randomise(ViT(**TINY, **arguments))


def torch_arrays(backbone):
    """The weights under timm's names, linear ones as [out, in]."""
    linear = {f"{n}.weight" for n, layer in backbone.named_sublayers() if isinstance(layer, paddle.nn.Linear)}
    return {n: np.ascontiguousarray(a.T) if n in linear else a for n, a in state(backbone).items()}


def rename(arrays, *pairs):
    for pattern, to in pairs:
        arrays = {re.sub(pattern, to, name): array for name, array in arrays.items()}
    return arrays


def official(backbone, gated):
    arrays = rename(torch_arrays(backbone), ("^reg_token", "register_tokens"))
    if gated:
        arrays = rename(arrays, (r"mlp\.fc1", "mlp.w12"), (r"mlp\.fc2", "mlp.w3"))
    return {**arrays, "mask_token": np.zeros([1, 12], "float32")}


def hugging_face(backbone, gated):
    arrays = rename(
        torch_arrays(backbone),
        (r"^reg_token", "embeddings.register_tokens"),
        (r"^cls_token", "embeddings.cls_token"),
        (r"^pos_embed", "embeddings.position_embeddings"),
        (r"^patch_embed\.proj", "embeddings.patch_embeddings.projection"),
        (r"^norm\.", "layernorm."),
        (r"^blocks\.", "encoder.layer."),
        (r"attn\.proj", "attention.output.dense"),
        (r"ls(\d)\.gamma", r"layer_scale\1.lambda1"),
    )
    if gated:
        arrays = rename(arrays, (r"mlp\.fc1", "mlp.weights_in"), (r"mlp\.fc2", "mlp.weights_out"))
    for name in [n for n in arrays if "attn.qkv" in n]:
        for part, piece in zip(("query", "key", "value"), np.split(arrays.pop(name), 3)):
            arrays[name.replace("attn.qkv", f"attention.attention.{part}")] = piece
    arrays["embeddings.mask_token"] = np.zeros([1, 12], "float32")
    return {f"dinov2.{name}": array for name, array in arrays.items()}


@pytest.mark.parametrize("kind", [{}, GIANT], ids=["plain", "gated"])
@pytest.mark.parametrize("store, layout", [(official, "official (DINOv2)"), (hugging_face, "hf (DINOv2)")])
def test_every_weight_is_found(store, layout, kind):
    source, target = model(**kind), ViT(**TINY, **kind)
    arrays = store(source, gated=bool(kind))
    assert normalise(arrays).layout == layout
    report = load_weights(target, arrays)
    assert report.missing == []
    assert all((target.state_dict()[name].numpy() == array).all() for name, array in state(source).items())


def test_the_position_of_the_class_token_becomes_part_of_it():
    source = model(num_register_tokens=4)  # positions for all prefix tokens, of which the authors have one
    arrays = official(source, gated=False)
    arrays["pos_embed"] = np.delete(arrays["pos_embed"], range(1, 5), axis=1)
    target = ViT(**TINY, **WITH_REGISTERS)
    load_weights(target, arrays)
    expected = arrays["cls_token"] + arrays["pos_embed"][:, :1]
    np.testing.assert_allclose(target.cls_token.numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(target.pos_embed.numpy(), arrays["pos_embed"][:, 1:])
    np.testing.assert_array_equal(target.reg_token.numpy(), arrays["register_tokens"])
