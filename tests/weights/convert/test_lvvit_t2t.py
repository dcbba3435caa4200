# SPDX-License-Identifier: Apache-2.0
"""The authors' LV-ViT and T2T-ViT need no table: backbones have their names, classifiers timm's."""

from __future__ import annotations

import re

import paddle
import pytest

import passl
from passl.weights import load_weights
from passl.weights.convert import to_layout
from tests.parity.golden import Golden

SMALL = {"img_size": 32, "embed_dim": 32, "depth": 1, "num_heads": 2}


@pytest.mark.parametrize(
    ("golden", "name", "arguments"),
    [
        ("tlt__lvvit_s", "lvvit_s_224", {"stem_dim": 8}),
        ("t2t__t2t_vit_14", "t2t_vit_14_224", {"token_dim": 16}),
        ("t2t__t2t_vit_t_14", "t2t_vit_t_14_224", {"token_dim": 16}),
    ],
)
def test_names_are_the_authors_and_load_with_nothing_missing(golden, name, arguments):
    paddle.seed(0)
    model = passl.create_model(name, num_classes=3, **SMALL, **arguments)
    state = {n: tensor.numpy().copy() for n, tensor in model.state_dict().items()}
    arrays = to_layout(state)
    entries = {n for n, *_ in Golden(golden).meta["entries"]}
    assert set(arrays) == {n for n in entries if not re.match(r"blocks\.[1-9]", n)}
    for parameter in model.parameters():
        parameter.set_value(parameter + 1.0)
    report = load_weights(model, arrays)
    assert report.missing == report.unexpected == []
    assert all((tensor.numpy() == state[n]).all() for n, tensor in model.state_dict().items())


def test_random_features_are_not_turned_although_they_have_two_axes():
    model = passl.create_model("t2t_vit_7_224", num_classes=3, **SMALL, token_dim=16)
    name = "tokens_to_token.attention1.w"
    features = model.architecture.state_dict()[name].numpy()
    assert features.shape == (8, 16)
    assert (to_layout({f"architecture.{name}": features})[name] == features).all()
