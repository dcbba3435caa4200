# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.beit import BEiT, BEiTAttention
from passl.modeling.layers.relative_position import look_up_bias, relative_position_index
from passl.weights import load_weights

DEPTH = 3


def tiny(**arguments):
    paddle.seed(0)
    return BEiT(**{"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": DEPTH, "num_heads": 2, **arguments})


def randomize(layer):
    for parameter in layer.parameters():
        parameter.set_value(paddle.randn(parameter.shape) * 0.5)
    layer.eval()
    return layer


def images():
    paddle.seed(1)
    return paddle.randn([2, 3, 32, 32])


def difference(a, b):
    return float((a - b).abs().max())


def arrays_of(model):
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def test_attention_equals_the_formula():
    paddle.seed(0)
    layer = randomize(BEiTAttention(8, 2))
    x, bias = paddle.randn([1, 5, 8]), paddle.randn([2, 5, 5])
    q, k, v = np.split(x.numpy()[0] @ layer.qkv.weight.numpy(), 3, axis=-1)
    q, v = q + layer.q_bias.numpy(), v + layer.v_bias.numpy()
    out = np.zeros([5, 8])
    for h in range(2):
        part = slice(4 * h, 4 * h + 4)
        weights = np.exp(q[:, part] @ k[:, part].T / 2.0 + bias.numpy()[h])
        out[:, part] = weights / weights.sum(-1, keepdims=True) @ v[:, part]
    expected = out @ layer.proj.weight.numpy() + layer.proj.bias.numpy()
    np.testing.assert_allclose(layer(x, bias).numpy()[0], expected, rtol=1e-4, atol=1e-5)


def test_queries_and_values_have_a_bias_and_keys_have_none():
    names = set(tiny().state_dict())
    assert {"blocks.0.attn.q_bias", "blocks.0.attn.v_bias"} <= names
    assert not {"blocks.0.attn.k_bias", "blocks.0.attn.qkv.bias"} & names
    assert not any("_bias" in n and "table" not in n for n in tiny(qkv_bias=False).state_dict())


def test_rows_of_the_table_count_offsets_and_then_the_class_token():
    height, width = 2, 3
    index = relative_position_index((height, width), class_token=True)
    places = list(itertools.product(range(height), range(width)))
    for i, (row, column) in enumerate(places):
        for j, (r, c) in enumerate(places):
            assert index[1 + i, 1 + j] == (row - r + height - 1) * (2 * width - 1) + column - c + width - 1
    offsets = (2 * height - 1) * (2 * width - 1)
    assert (index[0, 1:] == offsets).all()
    assert (index[1:, 0] == offsets + 1).all()
    assert index[0, 0] == offsets + 2


def test_every_block_has_a_table_of_its_own():
    model = randomize(tiny())
    tables = [n for n in model.state_dict() if "bias_table" in n]
    assert tables == [f"blocks.{i}.attn.relative_position_bias_table" for i in range(DEPTH)]
    first, last = model.forward_intermediates(images(), [0, -1])
    table = model.blocks[-1].attn.relative_position_bias_table
    table.set_value(paddle.randn(table.shape))
    again, changed = model.forward_intermediates(images(), [0, -1])
    assert difference(first, again) == 0
    assert difference(last, changed) > 1e-3


def test_a_shared_table_equals_the_same_table_in_every_block():
    shared, single = randomize(tiny(rel_pos_bias="shared")), tiny()
    assert [n for n in shared.state_dict() if "bias_table" in n] == ["rel_pos_bias.relative_position_bias_table"]
    load_weights(single, arrays_of(shared))
    single.eval()
    assert difference(single(images()), shared(images())) < 1e-6


def test_a_pretrained_norm_does_not_become_that_of_the_mean():
    pretrained = randomize(tiny(rel_pos_bias="shared", global_pool="token", use_mask_token=True))
    model = tiny()
    report = load_weights(model, arrays_of(pretrained))
    assert report.missing == []
    assert report.unexpected == ["mask_token"]
    assert bool((model.fc_norm.weight == 1).all())
    assert difference(model.blocks[1].mlp.fc1.weight, pretrained.blocks[1].mlp.fc1.weight) == 0


def test_tables_are_resized_to_another_image_size():
    model = randomize(tiny())
    larger = tiny(img_size=(64, 48))
    report = load_weights(larger, arrays_of(model))
    assert [n for n, *_ in report.resized] == [f"blocks.{i}.attn.relative_position_bias_table" for i in range(DEPTH)]
    table, resized = (m.blocks[0].attn.relative_position_bias_table for m in (model, larger))
    assert resized.shape == [15 * 11 + 3, 2]
    assert difference(resized[-3:], table[-3:]) == 0
    assert difference(resized[7 * 11 + 5], table[3 * 7 + 3]) < 1e-6  # no offset
    assert larger(paddle.randn([1, 3, 64, 48])).shape == [1, 16]


@pytest.mark.parametrize("rel_pos_bias", ["block", "shared"])
def test_kept_patches_keep_their_relative_positions(rel_pos_bias):
    model = randomize(tiny(rel_pos_bias=rel_pos_bias))
    order = np.stack([np.random.RandomState(i).permutation(16) for i in range(2)])
    tokens = model.forward_features(images())
    shuffled = model.forward_features(images(), keep=paddle.to_tensor(order))
    for b in range(2):
        assert difference(shuffled[b, 1:], tokens[b, 1:][paddle.to_tensor(order[b])]) < 1e-4
    assert difference(shuffled[:, 0], tokens[:, 0]) < 1e-4


def test_without_biases_and_positions_patches_have_no_order():
    model = randomize(tiny(rel_pos_bias="none"))
    x = images()
    flipped = paddle.concat(
        [x[:, :, 16:], x[:, :, :16]], axis=2
    )  # the upper and the lower rows of patches change place
    assert difference(model(x), model(flipped)) < 1e-5
    with_positions = randomize(tiny(rel_pos_bias="none", abs_pos_embed=True))
    assert with_positions.pos_embed.shape == [1, 17, 16]
    assert difference(with_positions(x), with_positions(flipped)) > 1e-3


def test_masked_patches_have_no_influence():
    model = randomize(tiny(use_mask_token=True))
    x = images()
    changed = x.clone()
    changed[:, :, :8] = 0.0
    mask = paddle.zeros([2, 16], dtype="bool")
    mask[:, :4] = True
    assert difference(model.forward_features(x, mask=mask), model.forward_features(changed, mask=mask)) == 0
    assert difference(model.forward_features(x), model.forward_features(changed)) > 1e-3
    with pytest.raises(ValueError, match="use_mask_token=True"):
        tiny().forward_features(x, mask=mask)


def test_what_leaves_a_block_starts_smaller_with_depth():
    model = tiny(embed_dim=64)
    for i, block in enumerate(model.blocks, start=1):
        for layer in (block.attn.proj, block.mlp.fc2):
            assert float(layer.weight.std()) == pytest.approx(0.02 / math.sqrt(2 * i), rel=0.1)
        assert float(block.mlp.fc1.weight.std()) == pytest.approx(0.02, rel=0.1)


def test_gammas_start_at_init_values_or_are_left_out():
    assert bool((tiny(init_values=0.3).blocks[2].gamma_2 == 0.3).all())
    assert not any("gamma" in name for name in tiny(init_values=None).state_dict())


def test_the_mean_of_the_patches_or_the_class_token_is_pooled():
    for pool in ("avg", "token"):
        model = randomize(tiny(global_pool=pool))
        tokens = model.forward_features(images())
        pooled = model.fc_norm(tokens[:, 1:].mean(1)) if pool == "avg" else tokens[:, 0]
        assert difference(model(images()), pooled) < 1e-6


def test_tokens_and_tables_do_not_decay():
    names = tiny(use_mask_token=True, abs_pos_embed=True).no_weight_decay()
    tables = {f"blocks.{i}.attn.relative_position_bias_table" for i in range(DEPTH)}
    assert names == {"cls_token", "mask_token", "pos_embed"} | tables
    assert tiny(rel_pos_bias="shared").layer_id("rel_pos_bias.relative_position_bias_table") == 0


def test_a_bias_is_looked_up_for_each_sample_or_for_all():
    table = paddle.arange(6, dtype="float32").reshape([3, 2])
    index = paddle.to_tensor([[0, 1], [2, 0]])
    bias = look_up_bias(table, index)
    assert bias.tolist() == [[[0, 2], [4, 0]], [[1, 3], [5, 1]]]
    assert (
        look_up_bias(table, paddle.stack([index, index.t()])) == paddle.stack([bias, bias.transpose([0, 2, 1])])
    ).all()


def test_unknown_choices_are_refused():
    with pytest.raises(ValueError, match="'block', 'shared' or 'none'"):
        tiny(rel_pos_bias="both")
    with pytest.raises(ValueError, match="'avg' or 'token'"):
        tiny(global_pool="max")
