# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import paddle
import pytest

from passl.modeling.backbones.resnet import BasicBlock, Bottleneck, ResNet


def count(**arguments):
    with paddle.LazyGuard():
        return sum(p.size for p in ResNet(**arguments).parameters() if not p.stop_gradient)


def test_the_3x3_convolution_of_a_bottleneck_strides():
    block = Bottleneck(16, 8, stride=2)
    assert [conv._stride for conv in (block.conv1, block.conv2, block.conv3)] == [[1, 1], [2, 2], [1, 1]]


@pytest.mark.parametrize(("stem", "sides"), [("imagenet", [16, 8, 4, 2]), ("cifar", [64, 32, 16, 8])])
def test_maps_halve_from_stage_to_stage(stem, sides):
    model = ResNet(depth=18, stem=stem, width=4)
    maps = model.forward_intermediates(paddle.randn([1, 3, 64, 64]), range(4))
    assert [m.shape for m in maps] == [[1, 4 * 2**i, side, side] for i, side in enumerate(sides)]


def test_forward_is_the_mean_of_the_last_map():
    model = ResNet(depth=18, width=4)
    model.eval()
    x = paddle.randn([2, 3, 64, 64])
    assert paddle.allclose(model(x), model.forward_features(x).flatten(2).mean(-1), atol=1e-6)


@pytest.mark.parametrize(("depth", "last_norm"), [(18, "bn2"), (50, "bn3")])
def test_zero_init_residual_makes_blocks_identities(depth, last_norm):
    model = ResNet(depth=depth, width=4, zero_init_residual=True)
    block = model.layer1[1]
    x = paddle.rand([2, 4 * block.expansion, 8, 8])
    assert (block(x) == x).all()
    assert (getattr(ResNet(depth=depth, width=4).layer1[1], last_norm).weight == 1).all()


def test_convolutions_start_with_he_s_rule_on_the_outgoing_side():
    paddle.seed(0)
    weight = ResNet(depth=18, width=16).layer4[1].conv2.weight
    assert float(weight.std()) == pytest.approx(math.sqrt(2 / (128 * 9)), rel=0.01)


def test_wide_and_grouped_variants_have_the_published_size():
    head = 2048 * 1000 + 1000
    assert count(depth=50, groups=32, base_width=4) + head == 25_028_904  # ResNeXt-50 32x4d
    assert count(depth=50, base_width=128) + head == 68_883_240  # Wide ResNet-50-2


@pytest.mark.parametrize("arguments", [{"groups": 2}, {"base_width": 128}])
def test_basic_blocks_cannot_be_grouped_or_widened(arguments):
    with pytest.raises(ValueError, match="depth 50, 101 or 152"):
        ResNet(depth=34, **arguments)


def test_unknown_depth_and_stem_are_refused():
    with pytest.raises(ValueError, match="depth must be one of 18, 34, 50, 101, 152, got 26"):
        ResNet(depth=26)
    with pytest.raises(ValueError, match="stem must be"):
        ResNet(stem="deep")


def test_a_block_of_equal_shape_has_no_projection():
    assert isinstance(BasicBlock(8, 8).downsample, paddle.nn.Identity)
    assert BasicBlock(8, 16).downsample[0].weight.shape == [16, 8, 1, 1]
