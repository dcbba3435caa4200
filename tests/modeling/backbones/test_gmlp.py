# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.gmlp import SpatialGatingUnit, gMLP

SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2}


def changed_patches(model) -> paddle.Tensor:
    x = paddle.randn([1, 3, 32, 32])
    changed = x.clone()
    changed[:, :, 8:16, 16:24] += 1.0  # second row, third column
    return (model.forward_features(x) - model.forward_features(changed)).abs().max(-1)[0]


def test_the_gate_is_its_formula():
    unit, z = SpatialGatingUnit(6, 4), paddle.randn([1, 4, 6])
    w, b = unit.proj.weight.numpy().T, unit.proj.bias.numpy()[:, None]
    gate = w @ unit.norm(z[:, :, 3:])[0].numpy() + b
    assert np.abs(unit(z)[0].numpy() - z[0, :, :3].numpy() * gate).max() < 1e-5


def test_blocks_begin_as_feed_forward_layers_for_each_patch():
    difference = changed_patches(gMLP(**SMALL))
    assert int(difference.argmax()) == 6
    assert float(difference[6]) > 0.1
    difference[6] = 0.0
    assert float(difference.max()) < 1e-4


def test_the_gate_is_what_mixes_patches():
    model = gMLP(**SMALL)
    paddle.nn.initializer.Normal(std=0.5)(model.blocks[0].mlp_channels.gate.proj.weight)
    assert float(changed_patches(model).min()) > 1e-4


def test_gates_have_the_epsilon_of_timm():
    model = gMLP(**SMALL)
    assert model.blocks[0].mlp_channels.gate.norm._epsilon == 1e-5
    assert model.blocks[0].norm._epsilon == model.norm._epsilon == 1e-6


def test_an_odd_width_cannot_be_split():
    with pytest.raises(ValueError, match="even"):
        gMLP(**{**SMALL, "embed_dim": 15, "mlp_ratio": 1})
