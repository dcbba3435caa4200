# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.pvt_v2 import ConvMlp, OverlappingPatchEmbed, PVTv2

TINY = {"embed_dims": [8, 16, 24, 32], "depths": [1, 2, 1, 1], "num_heads": [1, 2, 3, 4]}


def tiny(**arguments) -> PVTv2:
    paddle.seed(0)
    return PVTv2(**{**TINY, **arguments})


def test_neighbouring_patches_overlap():
    paddle.seed(0)
    embed = OverlappingPatchEmbed(3, 8, 7, 4)
    x = paddle.randn([1, 3, 32, 32])
    changed = x.clone()
    changed[:, :, :, 13] = 0.0  # a column in the fourth patch of four pixels, three from the middle of the third
    (before, grid), (after, _) = embed(x), embed(changed)
    moved = ((before - after).abs().max(-1)[0] > 0).numpy().reshape(grid)
    assert grid == (8, 8)
    assert moved.any(0).tolist() == [False, False, False, True, True, False, False, False]


def test_the_mlp_mixes_3_by_3_places_and_no_more():
    paddle.seed(0)
    mlp = ConvMlp(4, 8)
    x = paddle.randn([1, 49, 4])
    changed = x.clone()
    changed[:, 24] += 1.0  # the middle of 7x7
    moved = ((mlp(x, (7, 7)) - mlp(changed, (7, 7))).abs().max(-1)[0] > 0).numpy().reshape(7, 7)
    expected = np.zeros([7, 7], bool)
    expected[2:5, 2:5] = True
    assert (moved == expected).all()


def test_a_relu_stands_before_the_convolution_in_linear_models_only():
    paddle.seed(0)
    plain, linear = ConvMlp(4, 8), ConvMlp(4, 8, relu=True)
    linear.set_state_dict(plain.state_dict())
    x = paddle.randn([1, 9, 4])
    plain.fc1.bias.set_value(paddle.full([8], 100.0))
    linear.fc1.bias.set_value(paddle.full([8], 100.0))
    assert (plain(x, (3, 3)) == linear(x, (3, 3))).all()  # all positive
    plain.fc1.bias.set_value(paddle.full([8], -100.0))
    linear.fc1.bias.set_value(paddle.full([8], -100.0))
    assert float((linear(x, (3, 3)) - linear(2 * x, (3, 3))).abs().max()) == 0.0  # all negative: nothing passes
    assert float((plain(x, (3, 3)) - plain(2 * x, (3, 3))).abs().max()) > 0.0


def test_places_are_told_apart_without_position_embeddings():
    model = tiny()
    model.eval()
    assert not any("pos_embed" in name for name in model.state_dict())
    x = paddle.full([1, 3, 64, 64], 0.5)
    first = model.forward_intermediates(x, [0])[0][0]
    assert float((first[:, 0, 0] - first[:, 8, 8]).abs().max()) > 1e-3  # a flat image: only the border differs


@pytest.mark.parametrize("linear", [False, True])
def test_any_image_size_is_accepted_without_new_weights(linear):
    model = tiny(linear=linear)
    maps = model.forward_intermediates(paddle.randn([1, 3, 64, 96]), range(4))
    assert [m.shape for m in maps] == [[1, 8 * (i + 1), 16 >> i, 24 >> i] for i in range(4)]
    assert model(paddle.randn([1, 3, 40, 72])).shape == [1, 32]


def test_linear_models_reduce_in_the_last_stage_too():
    with paddle.LazyGuard():
        reduced = [[m.stages[i].blocks[0].attn.reduces for i in range(4)] for m in (tiny(), tiny(linear=True))]
    assert reduced == [[True, True, True, False], [True] * 4]


def test_drop_path_rises_through_all_stages():
    with paddle.LazyGuard():
        model = tiny(drop_path_rate=0.4)
    rates = [b.drop_path.drop_prob for stage in model.stages for b in stage.blocks]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_depths_of_parameters():
    with paddle.LazyGuard():
        model = tiny()
    names = {
        "patch_embed.proj.weight": 0,
        "stages.0.blocks.0.attn.sr.weight": 1,
        "stages.0.norm.weight": 1,
        "stages.1.downsample.proj.weight": 1,
        "stages.1.blocks.1.mlp.dwconv.weight": 3,
        "stages.3.downsample.norm.bias": 4,
        "stages.3.blocks.0.norm2.weight": 5,
        "stages.3.norm.weight": 6,
    }
    assert {name: model.layer_id(name) for name in names} == names


def test_every_parameter_of_a_linear_model_gets_a_gradient():
    model = tiny(linear=True)
    model(paddle.randn([2, 3, 32, 32])).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []
