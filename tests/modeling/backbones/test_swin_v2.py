# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.swin import join_neighbours
from passl.modeling.backbones.swin_v2 import (
    CosineWindowAttention,
    PatchMergingV2,
    SwinV2,
    SwinV2Block,
    log_offsets,
)

from .test_swin import GRID, WINDOW, neighbours, randomize, reached


def tiny(**arguments):
    paddle.seed(0)
    sizes = {"img_size": 32, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": WINDOW}
    return SwinV2(**{**sizes, **arguments})


@pytest.mark.parametrize("place", [(0, 0), (3, 5), (7, 7)])
@pytest.mark.parametrize("shift", [False, True])
def test_a_place_reaches_exactly_its_window_in_one_block(shift, place):
    paddle.seed(0)
    block = randomize(SwinV2Block(8, (GRID, GRID), (WINDOW, WINDOW), shift, 2))
    offset = (WINDOW // 2,) * 2 if shift else (0, 0)
    assert reached(block, (GRID, GRID), place) == neighbours((GRID, GRID), (WINDOW, WINDOW), offset, place)


def test_cosine_attention_equals_the_formula():
    paddle.seed(0)
    side, width, heads = 2, 4, 2
    layer = randomize(CosineWindowAttention(heads * width, (side, side), heads))
    layer.logit_scale.set_value(paddle.to_tensor([1.0, 6.0]).reshape([2, 1, 1]))  # the second is above ln 100
    x = paddle.randn([1, side * side, heads * width])
    qkv = x.numpy()[0] @ layer.qkv.weight.numpy()
    q, k, v = np.split(qkv, 3, axis=-1)
    q, v = q + layer.q_bias.numpy(), v + layer.v_bias.numpy()
    out = np.zeros([4, 8])
    for h, scale in enumerate([math.e, 100.0]):
        part = slice(width * h, width * (h + 1))
        logits = np.zeros([4, 4])
        for i in range(4):
            for j in range(4):
                cosine = q[i, part] @ k[j, part] / np.linalg.norm(q[i, part]) / np.linalg.norm(k[j, part])
                offset = np.array([i // side - j // side, i % side - j % side]) * 8.0 / (side - 1)
                offset = np.sign(offset) * np.log2(1 + np.abs(offset)) / math.log2(8)
                bias = layer.cpb_mlp(paddle.to_tensor(offset.astype("float32")[None]))[0, h]
                logits[i, j] = scale * cosine + 16.0 / (1.0 + math.exp(-float(bias)))
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        out[:, part] = weights / weights.sum(-1, keepdims=True) @ v[:, part]
    expected = out @ layer.proj.weight.numpy() + layer.proj.bias.numpy()
    np.testing.assert_allclose(layer(x).numpy()[0], expected, rtol=1e-4, atol=1e-5)


def test_attention_does_not_see_the_length_of_queries_and_keys():
    paddle.seed(0)
    layer = randomize(CosineWindowAttention(8, (2, 2), 2, qkv_bias=False))
    x = paddle.randn([3, 4, 8])
    before = layer(x)
    weight = layer.qkv.weight.numpy()
    weight[:, :8] *= 5.0
    weight[:, 8:16] *= 0.2
    layer.qkv.weight.set_value(weight)
    np.testing.assert_allclose(layer(x).numpy(), before.numpy(), rtol=1e-4, atol=1e-5)


def test_queries_and_values_have_a_bias_and_keys_have_none():
    layer = CosineWindowAttention(8, (2, 2), 2)
    assert layer.qkv.bias is None
    assert layer.q_bias.shape == layer.v_bias.shape == [8]
    assert not any("k_bias" in name for name in layer.state_dict())


def test_offsets_are_scaled_by_the_window_of_the_pretraining():
    small, large = log_offsets((3, 3), (3, 3)), log_offsets((5, 5), (3, 3))
    assert float(np.abs(small).max()) == pytest.approx(math.log2(9) / 3)
    np.testing.assert_allclose(large.reshape(9, 9, 2)[2:7, 2:7], small.reshape(5, 5, 2), atol=1e-7)
    assert small[1].tolist() == pytest.approx([-math.log2(9) / 3, -math.log2(5) / 3])  # up 2, left 1


def test_the_bias_network_serves_other_windows_without_new_weights():
    small, large = tiny(), tiny(img_size=64, window_size=8, pretrained_window_size=[4, 4])
    large.set_state_dict(small.state_dict())
    assert {n: p.shape for n, p in small.named_parameters()} == {n: p.shape for n, p in large.named_parameters()}
    assert large(paddle.randn([1, 3, 64, 64])).shape == [1, 32]


def test_blocks_begin_as_identities():
    paddle.seed(0)
    block = tiny().layers[0].blocks[1]
    x = paddle.randn([1, 8, 8, 16])
    assert (block(x) == x).all()


def test_the_norm_stands_behind_the_branch():
    paddle.seed(0)
    block = randomize(SwinV2Block(8, (4, 4), (4, 4), False, 2))
    x = paddle.randn([1, 4, 4, 8])
    half = x + block.norm1(block.attn(x.reshape([1, 16, 8])).reshape([1, 4, 4, 8]))
    expected = half + block.norm2(block.mlp(half))
    np.testing.assert_allclose(block(x).numpy(), expected.numpy(), atol=1e-5)


def test_merging_projects_before_it_norms():
    merging = randomize(PatchMergingV2(2))
    x = paddle.randn([1, 2, 2, 2])
    expected = merging.norm(join_neighbours(x) @ merging.reduction.weight)
    assert float((merging(x) - expected).abs().max()) < 1e-6


def test_scales_and_the_bias_network_do_not_decay():
    names = tiny().no_weight_decay()
    assert "layers.1.blocks.0.attn.logit_scale" in names
    assert "layers.0.blocks.1.attn.cpb_mlp.2.weight" in names
    assert not any("qkv" in name for name in names)


def test_windows_of_the_pretraining_are_given_for_each_stage():
    with pytest.raises(ValueError, match="each of the 2 stages"):
        tiny(pretrained_window_size=[4])
