# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

from passl import runtime
from passl.modeling.backbones.efficientnet import EfficientNet, MBConv, scaled_width, stage_depths
from passl.modeling.layers import SqueezeExcitation

SMALL = {"width_factor": 0.25, "depth_factor": 0.25}
BLOCK = {"kernel": 3, "stride": 1, "lite": False, "padding": "symmetric", "epsilon": 1e-5, "drop_path": 0.0}


def build(**arguments):
    """A small model in training: its norms keep untrained features from vanishing."""
    paddle.seed(0)
    return EfficientNet(**{**SMALL, **arguments})


def images(height=32, width=32):
    return paddle.to_tensor(np.random.RandomState(0).standard_normal((2, 3, height, width)).astype("float32"))


# Widths and depths are those of timm's models, parameters too, without the classifier's 1000 D + 1000.
@pytest.mark.parametrize(
    ("width", "depth", "lite", "widths", "depths", "parameters"),
    [
        (1.0, 1.0, False, [32, 16, 24, 40, 80, 112, 192, 320, 1280], [1, 2, 2, 3, 3, 4, 1], 4_007_548),  # B0
        (1.1, 1.2, False, [32, 16, 24, 48, 88, 120, 208, 352, 1408], [2, 3, 3, 4, 4, 5, 2], 7_700_994),  # B2
        (1.4, 1.8, False, [48, 24, 32, 56, 112, 160, 272, 448, 1792], [2, 4, 4, 6, 6, 8, 2], 17_548_616),  # B4
        (2.0, 3.1, False, [64, 32, 48, 80, 160, 224, 384, 640, 2560], [4, 7, 7, 10, 10, 13, 4], 63_786_960),  # B7
        (1.0, 1.0, True, [32, 16, 24, 40, 80, 112, 192, 320, 1280], [1, 2, 2, 3, 3, 4, 1], 3_371_008),  # Lite0
        (1.4, 1.8, True, [32, 24, 32, 56, 112, 160, 272, 448, 1280], [1, 4, 4, 6, 6, 8, 1], 11_725_568),  # Lite4
    ],
)
def test_width_and_depth_grow_together(width, depth, lite, widths, depths, parameters):
    with paddle.LazyGuard():
        model = EfficientNet(width_factor=width, depth_factor=depth, lite=lite)
    ends = [stage[len(stage) - 1] for stage in model.blocks]
    last = [(block.conv_pwl if block.widens else block.conv_pw).weight.shape[0] for block in ends]
    assert [model.conv_stem.weight.shape[0], *last, model.num_features] == widths
    assert [len(stage) for stage in model.blocks] == model.depths == depths
    trained = [p for n, p in model.named_parameters() if not n.endswith(("._mean", "._variance"))]
    assert sum(p.size for p in trained) == parameters
    assert model.num_layers == sum(depths)


def test_widths_are_multiples_of_eight_that_lose_at_most_a_tenth():
    for width in range(8, 400, 8):
        for factor in np.arange(0.1, 3.0, 0.07):
            scaled, wanted = scaled_width(width, factor), factor * width
            assert scaled % 8 == 0 and 0.9 * wanted <= scaled
            assert scaled == 8 or abs(scaled - wanted) <= 4 or scaled - 8 < 0.9 * wanted
    assert (scaled_width(80, 1.1), scaled_width(40, 0.25)) == (88, 16)  # 8 would be a fifth less than 10


def test_depths_are_rounded_up():
    assert stage_depths(1.01) == [2, 3, 3, 4, 4, 5, 2]
    assert stage_depths(0.01) == [1] * 7
    assert stage_depths(1.01, lite=True) == [1, 3, 3, 4, 4, 5, 1]


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("side", [15, 16, 17, 18])
def test_same_padding_is_tensorflow_s(kernel, side):
    block = MBConv(8, 8, 1, kernel, 2, False, "same", 1e-3, 0.0)
    x = paddle.randn([1, 8, side, side])
    out = math.ceil(side / 2)
    total = max((out - 1) * 2 + kernel - side, 0)  # of zeros: the smaller half goes before, the larger after
    before, after = total // 2, total - total // 2
    padded = F.pad(x, [before, after, before, after])
    expected = F.conv2d(padded, block.conv_dw.weight, stride=2, groups=8)
    found = block.conv_dw(x)
    assert found.shape == [1, 8, out, out]
    assert paddle.allclose(found, expected, atol=1e-6)


def test_the_two_paddings_agree_on_odd_sides_alone():
    same, symmetric = build(padding="same"), build()
    assert paddle.allclose(same(images(33, 65)), symmetric(images(33, 65)), atol=1e-6)  # 17, 9, 5, 3: odd to the end
    assert float((same(images(32, 65)) - symmetric(images(32, 65))).abs().max()) > 0.1


def test_same_padding_works_in_a_static_graph_of_any_size():
    eager, compiled = build(padding="same"), runtime.compile(build(padding="same"))
    for height, width in ((32, 32), (48, 31)):
        assert paddle.allclose(compiled(images(height, width)), eager(images(height, width)), atol=1e-5)
    assert not compiled.forward.failed


def test_the_width_of_the_excitation_follows_the_block_s_input():
    assert MBConv(16, 24, 6, **BLOCK).se.conv_reduce.weight.shape == [4, 96, 1, 1]
    assert MBConv(32, 16, 1, **BLOCK).se.conv_reduce.weight.shape == [8, 32, 1, 1]


@pytest.mark.parametrize("expansion", [1, 6])
def test_a_shortcut_joins_ends_of_one_shape(expansion):
    block = MBConv(8, 8, expansion, **BLOCK)
    last = block.bn3 if block.widens else block.bn2
    last.weight.set_value(paddle.zeros_like(last.weight))
    x = paddle.randn([2, 8, 6, 6])
    assert (block(x) == x).all()
    for other in (MBConv(8, 16, expansion, **BLOCK), MBConv(8, 8, expansion, **{**BLOCK, "stride": 2})):
        assert not other.has_shortcut
        assert other(x).shape in ([2, 16, 6, 6], [2, 8, 3, 3])


def test_the_narrow_ends_have_no_activation():
    block = MBConv(8, 16, 6, **{**BLOCK, "lite": True})
    y = block(paddle.randn([2, 8, 6, 6]))
    assert float(y.min()) < -0.5 and abs(float(y.mean())) < 1e-4  # as the norm leaves it


def test_maps_shrink_to_a_thirty_second_and_the_last_is_the_features():
    model = build()
    maps = model.forward_intermediates(images(64, 32), range(8))
    assert [m.shape[2:] for m in maps] == [[32, 16], [16, 8], [8, 4], [4, 2], [4, 2], [2, 1], [2, 1], [2, 1]]
    assert maps[-1].shape[1] == model.num_features
    assert (maps[-1] == model.forward_features(images(64, 32))).all()
    assert paddle.allclose(model(images(64, 32)), maps[-1].mean([2, 3]))


def test_lite_has_bounded_activations_and_no_excitation():
    model = build(lite=True)
    assert not any(isinstance(layer, SqueezeExcitation) for layer in model.sublayers())
    assert model.num_features == 1280 and model.conv_stem.weight.shape[0] == 32
    model.bn2.weight.set_value(paddle.full_like(model.bn2.weight, 10.0))
    features = model.forward_features(images(64, 64))
    assert float(features.min()) == 0.0 and float(features.max()) == 6.0
    assert float(build().forward_features(images(64, 64)).min()) < 0.0


def test_epsilon_is_every_norm_s():
    norms = [layer for layer in build(epsilon=1e-3).sublayers() if isinstance(layer, paddle.nn.BatchNorm2D)]
    assert len(norms) == 2 + 2 + 6 * 3
    assert {norm._epsilon for norm in norms} == {1e-3}


def test_drop_path_rises_over_the_blocks_of_all_stages_and_stays_below_the_rate():
    blocks = [block for stage in build(drop_path_rate=0.7).blocks for block in stage]
    assert [block.drop_path.drop_prob for block in blocks] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def test_depths_of_parameters_count_through_the_stages():
    model = build(depth_factor=1.0)
    names = ["conv_stem.weight", "bn1.bias", "blocks.0.0.bn1.weight", "blocks.1.1.bn1.weight", "blocks.6.0.bn3.bias"]
    assert [model.layer_id(name) for name in names] == [0, 0, 1, 3, 16]
    assert [model.layer_id(name) for name in ("conv_head.weight", "bn2.weight")] == [17, 17]


def test_initial_deviation_follows_the_outgoing_side_of_one_group():
    paddle.seed(0)
    model = EfficientNet()
    for conv, fan in ((model.blocks[5][1].conv_dw, 25), (model.conv_head, 1280), (model.blocks[5][1].conv_pwl, 192)):
        assert float(conv.weight.std()) == pytest.approx(math.sqrt(2 / fan), rel=0.02)
    assert float(model.blocks[5][1].se.conv_expand.bias.abs().max()) == 0.0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"padding": "SAME"}, r"padding must be 'symmetric' or 'same', got 'SAME'"),
        ({"width_factor": 0}, r"width_factor \(=0\) .* positive"),
        ({"depth_factor": -1.0}, r"depth_factor \(=-1.0\) must be positive"),
    ],
)
def test_wrong_arguments_are_explained(wrong, says):
    with pytest.raises(ValueError, match=says):
        EfficientNet(**wrong)
