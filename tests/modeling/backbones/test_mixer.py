# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.mixer import Mixer, MixerBlock


def test_a_block_is_the_equation_of_the_paper():
    block, x = MixerBlock(6, 4, 5, 7, 0.0, 0.0, 1e-6), paddle.randn([1, 4, 6])
    for norm in (block.norm1, block.norm2):  # fresh ones are alike
        norm.weight.set_value(paddle.rand([6]))
        norm.bias.set_value(paddle.rand([6]))
    normed, mixed = block.norm1(x)[0], x[0].clone()
    for c in range(6):  # the same perceptron for every column
        mixed[:, c] = mixed[:, c] + block.mlp_tokens(normed[:, c])
    normed, expected = block.norm2(mixed), mixed.clone()
    for s in range(4):  # and for every row
        expected[s] = expected[s] + block.mlp_channels(normed[s])
    assert np.abs((block(x)[0] - expected).numpy()).max() < 1e-5


def test_one_changed_patch_changes_every_patch_of_the_next_block():
    model = Mixer(32, 8, embed_dim=16, depth=1, tokens_mlp_dim=16, channels_mlp_dim=32)
    x = paddle.randn([1, 3, 32, 32])
    changed = x.clone()
    changed[:, :, :8, :8] += 1.0
    difference = (model.forward_features(x) - model.forward_features(changed)).abs().max(-1)
    assert (difference > 0).all()


def test_products_start_with_variance_one_over_fan_in():
    paddle.seed(0)
    model = Mixer(32, 8, embed_dim=64, depth=1, tokens_mlp_dim=32, channels_mlp_dim=256)
    assert float(model.blocks[0].mlp_channels.fc1.weight.std()) == pytest.approx(1 / 8, rel=0.03)
    assert float(model.stem.proj.weight.std()) == pytest.approx(192**-0.5, rel=0.03)
    assert (model.blocks[0].mlp_tokens.fc1.bias == 0).all()


def test_drop_path_rises_linearly():
    model = Mixer(32, 8, embed_dim=8, depth=3, tokens_mlp_dim=4, channels_mlp_dim=8, drop_path_rate=0.2)
    assert [block.drop_path.drop_prob for block in model.blocks] == [0.0, 0.1, 0.2]
