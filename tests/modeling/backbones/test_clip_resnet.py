# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle import nn

from passl.modeling.backbones.clip_resnet import AttentionPool, Bottleneck, CLIPResNet


def tiny(**arguments):
    paddle.seed(0)
    model = CLIPResNet(**{"img_size": 64, "depths": [1, 2, 1, 1], "width": 8, **arguments})
    model.eval()
    return model


def linear(layer, x):
    return x @ layer.weight.numpy() + layer.bias.numpy()


def test_attention_pooling_equals_the_formula():
    paddle.seed(0)
    pool = AttentionPool(128, (2, 3))
    for parameter in pool.parameters():
        parameter.set_value(paddle.randn(parameter.shape) * 0.2)
    maps = paddle.randn([2, 128, 2, 3])
    places = maps.numpy().reshape(2, 128, 6).transpose(0, 2, 1)
    tokens = np.concatenate([places.mean(1, keepdims=True), places], 1) + pool.pos_embed.numpy()
    expected = []
    for x in tokens:
        q, k, v = linear(pool.q, x[:1]), linear(pool.k, x), linear(pool.v, x)
        heads = []
        for head in (slice(0, 64), slice(64, 128)):
            weights = np.exp(q[:, head] @ k[:, head].T / 8.0)
            heads.append(weights / weights.sum() @ v[:, head])
        expected.append(np.concatenate(heads, 1)[0])
    np.testing.assert_allclose(pool(maps).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_only_the_first_convolution_strides():
    strides = [layer._stride for layer in tiny().sublayers() if isinstance(layer, nn.Conv2D)]
    assert strides == [[2, 2]] + [[1, 1]] * (len(strides) - 1)


def test_a_block_averages_squares_before_its_last_convolution_and_in_its_shortcut():
    paddle.seed(0)
    block = Bottleneck(8, 4, 2)
    block.eval()
    x = paddle.randn([1, 8, 4, 4])
    branch = nn.functional.relu(block.conv2_kxk(nn.functional.relu(block.conv1_1x1(x))))
    mean = branch.reshape([1, 4, 2, 2, 2, 2]).mean([3, 5])
    pooled = x.reshape([1, 8, 2, 2, 2, 2]).mean([3, 5])
    expected = nn.functional.relu(block.conv3_1x1(mean) + block.shortcut.conv(pooled))
    np.testing.assert_allclose(block(x).numpy(), expected.numpy(), atol=1e-6)


def test_maps_halve_and_widen_from_stage_to_stage():
    shapes = [x.shape for x in tiny().forward_intermediates(paddle.randn([1, 3, 64, 64]), range(4))]
    assert shapes == [[1, 32, 16, 16], [1, 64, 8, 8], [1, 128, 4, 4], [1, 256, 2, 2]]


def test_layer_ids_count_blocks_through_the_stages():
    model = tiny()
    names = (
        "stem.conv2.bn.bias",
        "stages.0.0.conv1_1x1.conv.weight",
        "stages.1.1.conv3_1x1.bn.bias",
        "attn_pool.q.bias",
    )
    assert [model.layer_id(name) for name in names] == [0, 1, 3, 6]


def test_positions_are_resized_to_another_image_size():
    arrays = {name: value.numpy() for name, value in tiny(img_size=96).state_dict().items()}
    adapted = tiny(img_size=(64, 128)).adapt_weights(arrays)["attn_pool.pos_embed"]
    assert adapted.shape == (1 + 2 * 4, 256)
    np.testing.assert_array_equal(adapted[0], arrays["attn_pool.pos_embed"][0])
    assert tiny(img_size=96).adapt_weights(arrays) is arrays


def test_wrong_sizes_are_explained():
    with pytest.raises(ValueError, match="divisible by 32"):
        tiny(img_size=40)
    with pytest.raises(ValueError, match="img_size=96"):
        tiny()(paddle.randn([1, 3, 96, 96]))
