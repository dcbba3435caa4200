# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.xcit import XCA, FourierPositions, XCiT

DEPTH = 3


def tiny(**arguments):
    paddle.seed(0)
    model = XCiT(**{"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": DEPTH, "num_heads": 4, **arguments})
    model.eval()
    return model


def images(height=32, width=32):
    paddle.seed(1)
    return paddle.randn([2, 3, height, width])


def test_attention_is_between_channels_with_queries_and_keys_of_unit_length_along_the_tokens():
    paddle.seed(0)
    num_heads, width, num_tokens = 2, 3, 5
    layer = XCA(num_heads * width, num_heads)
    for parameter in layer.parameters():
        parameter.set_value(paddle.randn(parameter.shape))
    x = paddle.randn([1, num_tokens, num_heads * width])
    q, k, v = np.split((x.numpy() @ layer.qkv.weight.numpy() + layer.qkv.bias.numpy())[0], 3, axis=-1)
    q, k = q / np.linalg.norm(q, axis=0), k / np.linalg.norm(k, axis=0)
    expected = np.zeros([num_tokens, num_heads * width])
    for channel in range(num_heads * width):
        head = channel // width
        peers = slice(head * width, (head + 1) * width)
        weights = np.exp(q[:, channel] @ k[:, peers] * layer.temperature.numpy()[head, 0, 0])
        expected[:, channel] = v[:, peers] @ (weights / weights.sum())
    expected = expected @ layer.proj.weight.numpy() + layer.proj.bias.numpy()
    np.testing.assert_allclose(layer(x).numpy()[0], expected, rtol=1e-4, atol=1e-4)


def test_cross_covariance_attention_is_the_same_for_any_order_of_the_tokens():
    paddle.seed(0)
    layer, x, order = XCA(8, 2), paddle.randn([1, 6, 8]), paddle.to_tensor([3, 0, 5, 1, 4, 2])
    np.testing.assert_allclose(layer(x.index_select(order, 1)), layer(x).index_select(order, 1), atol=1e-6)


def test_any_image_size_is_accepted_by_the_same_weights():
    model = tiny()
    assert model(images(48, 24)).shape == model(images()).shape == [2, 32]
    assert model.forward_features(images(48, 24)).shape == [2, 1 + 6 * 3, 32]
    assert model.forward_intermediates(images(48, 24), [-1])[0].shape == [2, 32, 6, 3]


def test_positions_equal_the_formula():
    layer = FourierPositions(dim=5, hidden_dim=4)
    rows, columns = 3, 2
    features = np.zeros([8, rows, columns])
    for y in range(rows):
        for x in range(columns):
            for axis, place in enumerate(((y + 1) / (rows + 1e-6), (x + 1) / (columns + 1e-6))):
                for i in range(2):
                    angle = 2 * np.pi * place / 10000 ** (2 * i / 4)
                    features[4 * axis + 2 * i : 4 * axis + 2 * i + 2, y, x] = np.sin(angle), np.cos(angle)
    weight, bias = layer.token_projection.weight.numpy()[:, :, 0, 0], layer.token_projection.bias.numpy()
    expected = np.einsum("dc,cyx->dyx", weight, features) + bias[:, None, None]
    np.testing.assert_allclose(layer((rows, columns)).numpy()[0], expected, atol=1e-5)


def test_without_local_patch_interaction_the_first_block_moves_no_place_of_the_grid():
    model = tiny()
    block, x = model.blocks[0], paddle.randn([1, 16, 32])
    order = paddle.to_tensor(np.random.RandomState(0).permutation(16))
    shuffled = x.index_select(order, 1)
    grid = (4, 4)
    assert (block(shuffled, grid) - block(x, grid).index_select(order, 1)).abs().max() > 1e-3
    block.gamma3.set_value(paddle.zeros_like(block.gamma3))
    assert (block(shuffled, grid) - block(x, grid).index_select(order, 1)).abs().max() < 1e-5


def test_the_class_token_enters_after_the_cross_covariance_blocks():
    model = tiny()
    calls = []
    for block in [*model.blocks, *model.cls_attn_blocks]:
        block.register_forward_pre_hook(lambda _, inputs: calls.append(inputs[0].shape[1]))
    model(images())
    assert calls == [16] * DEPTH + [17] * 2


def test_drop_path_is_constant_and_absent_in_class_attention():
    model = tiny(drop_path_rate=0.3)
    assert [block.drop_path.drop_prob for block in model.blocks] == [0.3] * DEPTH
    assert not any("drop_path" in name for name, _ in model.cls_attn_blocks.named_sublayers())


def test_nano_norms_the_class_token_alone_before_the_mlp():
    x = paddle.randn([1, 17, 32])
    seen = []
    for tokens_norm in (True, False):
        block = tiny(tokens_norm=tokens_norm).cls_attn_blocks[0]
        block.norm2.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
        block(x)
    assert seen == [17, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"patch_size": 12}, "power of two"),
        ({"img_size": 36}, "divisible by patch_size"),
        ({"embed_dim": 30, "num_heads": 3}, "divisible by 4"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tiny(**arguments)
