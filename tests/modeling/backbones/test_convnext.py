# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.convnext import ConvNeXt, ConvNeXtBlock, GlobalResponseNorm

TINY = {"depths": [1, 2, 4, 1], "dims": [8, 16, 24, 32]}


def lazy(**arguments) -> ConvNeXt:
    with paddle.LazyGuard():
        return ConvNeXt(**arguments)


def block(**arguments) -> ConvNeXtBlock:
    return ConvNeXtBlock(8, **{"drop_path": 0.0, "init_values": 1.0, "use_grn": False, "epsilon": 1e-6, **arguments})


def test_a_block_mixes_a_window_of_7_by_7_places_and_no_more():
    model = block()
    x = paddle.randn([1, 8, 15, 15])
    changed = x.clone()
    changed[:, :, 7, 7] += 1.0
    different = ((model(x) - model(changed)).abs().max(1) > 1e-7)[0].numpy()  # [h, w]
    expected = np.zeros([15, 15], bool)
    expected[4:11, 4:11] = True
    assert (different == expected).all()


def test_the_response_norm_of_v2_lets_a_block_see_everywhere():
    model = block(use_grn=True, init_values=None)
    model.mlp.grn.weight.set_value(paddle.ones([32]))
    x = paddle.randn([1, 8, 15, 15])
    changed = x.clone()
    changed[:, :, 0, 0] += 10.0
    assert ((model(x) - model(changed)).abs().max(1) > 0).all()


def test_the_response_norm_is_its_formula():
    norm = GlobalResponseNorm(3)
    x = np.random.RandomState(0).standard_normal((2, 4, 5, 3)).astype("float32")
    weight, bias = np.array([0.5, -1.0, 2.0], "float32"), np.array([0.1, 0.2, 0.3], "float32")
    norm.weight.set_value(weight)
    norm.bias.set_value(bias)
    expected = np.empty_like(x)
    for image, out in zip(x, expected):
        length = np.array([np.linalg.norm(image[:, :, c]) for c in range(3)])
        for c in range(3):
            out[:, :, c] = image[:, :, c] + weight[c] * image[:, :, c] * length[c] / (length.mean() + 1e-6) + bias[c]
    assert np.abs(norm(paddle.to_tensor(x)).numpy() - expected).max() < 1e-5


def test_the_response_norm_begins_as_the_identity():
    x = paddle.randn([2, 3, 3, 4])
    assert (GlobalResponseNorm(4)(x) == x).all()


def test_an_empty_channel_has_a_finite_gradient():
    norm = GlobalResponseNorm(2)
    norm.weight.set_value(paddle.ones([2]))
    x = paddle.randn([1, 2, 2, 2])
    x[:, :, :, 1] = 0.0
    x.stop_gradient = False
    norm(x).sum().backward()
    assert x.grad.isfinite().all()


def test_v2_has_response_norms_where_v1_has_layer_scale():
    first, second = set(lazy(**TINY).state_dict()), set(lazy(**TINY, init_values=None, use_grn=True).state_dict())
    places = [f"stages.{i}.blocks.{j}." for i, depth in enumerate(TINY["depths"]) for j in range(depth)]
    assert first - second == {f"{place}gamma" for place in places}
    assert second - first == {f"{place}mlp.grn.{kind}" for place in places for kind in ("weight", "bias")}


def test_every_parameter_of_v2_gets_a_gradient():
    model = ConvNeXt(**TINY, init_values=None, use_grn=True)
    model(paddle.randn([2, 3, 32, 32])).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_maps_halve_from_stage_to_stage_and_need_not_be_square():
    maps = ConvNeXt(**TINY).forward_intermediates(paddle.randn([1, 3, 64, 32]), range(4))
    assert [m.shape for m in maps] == [[1, 8 * (i + 1), 16 >> i, 8 >> i] for i in range(4)]


def test_drop_path_rises_over_the_blocks_of_all_stages():
    model = lazy(**TINY, drop_path_rate=0.7)
    rates = [b.drop_path.drop_prob for stage in model.stages for b in stage.blocks]
    assert rates == pytest.approx([0.1 * i for i in range(8)])


def test_depths_of_parameters_are_the_authors_for_27_blocks():
    model = lazy(depths=[3, 3, 27, 3], dims=TINY["dims"])
    assert model.num_layers == 12
    depth = {
        "stem.0.weight": 0,
        "stages.0.blocks.2.norm.weight": 1,
        "stages.1.downsample.0.weight": 2,
        "stages.1.blocks.0.gamma": 2,
        "stages.2.downsample.1.weight": 3,
        "stages.2.blocks.2.gamma": 3,
        "stages.2.blocks.3.gamma": 4,
        "stages.2.blocks.26.mlp.fc1.weight": 11,
        "stages.3.downsample.1.bias": 12,
        "stages.3.blocks.2.conv_dw.weight": 12,
        "norm.weight": 13,
    }
    assert {name: model.layer_id(name) for name in depth} == depth


def test_stages_of_equal_width_are_refused():
    with pytest.raises(ValueError, match="all different"):
        ConvNeXt(dims=[8, 8, 16, 32])
