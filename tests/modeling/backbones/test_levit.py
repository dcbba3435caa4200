# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.levit import LeViT, LeViTAttention, LeViTDownAttention, distance_index
from passl.modeling.heads import LeViTHead
from passl.weights import load_weights

TINY = {"embed_dims": [32, 48, 64], "key_dim": 16, "depths": [1, 2, 1], "num_heads": [2, 3, 4]}


def tiny(**arguments) -> LeViT:
    paddle.seed(0)
    return LeViT(**{"img_size": 96, **TINY, **arguments})


def randomize(layer, scale=1.0):
    paddle.seed(1)
    for name, parameter in layer.named_parameters():
        value = 0.5 + paddle.rand(parameter.shape) if "_variance" in name else scale * paddle.randn(parameter.shape)
        parameter.set_value(value)
    layer.eval()
    return layer


def test_the_bias_depends_on_the_distance_of_rows_and_columns():
    places = list(itertools.product(range(2), range(3)))
    expected = [[abs(r - y) * 3 + abs(c - x) for y, x in places] for r, c in places]
    assert distance_index((2, 3), 1).tolist() == expected


def test_places_that_ask_are_every_other_row_and_column():
    places = list(itertools.product(range(3), range(4)))
    asking = [(0, 0), (0, 2), (2, 0), (2, 2)]
    expected = [[abs(r - y) * 4 + abs(c - x) for y, x in places] for r, c in asking]
    assert distance_index((3, 4), 2).tolist() == expected


def projected(layer, x):
    """``LinearNorm`` in evaluation, in NumPy."""
    norm = layer.bn
    y = x @ layer.linear.weight.numpy()
    y = (y - norm._mean.numpy()) / np.sqrt(norm._variance.numpy() + 1e-5)
    return y * norm.weight.numpy() + norm.bias.numpy()


def hard_swish(x):
    return x * np.clip(x + 3.0, 0.0, 6.0) / 6.0


def attended(layer, q, k, v, queries):
    """The formula, one query after the other; q, k, v [tokens, heads, width]."""
    height, width = layer.grid_size
    table = layer.attention_biases.numpy().reshape(-1, height, width)
    out = np.zeros([len(queries), layer.num_heads, layer.value_dim])
    for h, (i, (row, column)) in itertools.product(range(layer.num_heads), enumerate(queries)):
        logits = k[:, h] @ q[i, h] / np.sqrt(layer.key_dim)
        for j, (r, c) in enumerate(itertools.product(range(height), range(width))):
            logits[j] += table[h, abs(row - r), abs(column - c)]
        weights = np.exp(logits - logits.max())
        out[i, h] = weights / weights.sum() @ v[:, h]
    return projected(layer.proj.ln, hard_swish(out.reshape(len(queries), -1)))


def test_attention_equals_the_formula():
    layer = randomize(LeViTAttention(8, (2, 3), 4, 2, 2))
    x = paddle.randn([1, 6, 8])
    q, k, v = np.split(projected(layer.qkv, x.numpy()[0]).reshape(6, 2, 16), [4, 8], axis=-1)
    expected = attended(layer, q, k, v, list(itertools.product(range(2), range(3))))
    np.testing.assert_allclose(layer(x).numpy()[0], expected, rtol=1e-3, atol=1e-4)


def test_attention_that_halves_equals_the_formula():
    layer = randomize(LeViTDownAttention(8, 12, (3, 4), 4, 2, 4))
    x = paddle.randn([1, 12, 8])
    k, v = np.split(projected(layer.kv, x.numpy()[0]).reshape(12, 2, 20), [4], axis=-1)
    asking = [(0, 0), (0, 2), (2, 0), (2, 2)]
    q = projected(layer.q.ln, x.numpy()[0][[4 * r + c for r, c in asking]]).reshape(4, 2, 4)
    np.testing.assert_allclose(layer(x).numpy()[0], attended(layer, q, k, v, asking), rtol=1e-3, atol=1e-4)


def test_a_fresh_block_is_the_identity():
    block = tiny().stages[0].blocks[0]
    x = paddle.randn([2, 36, 32])
    assert (block(x) == x).all()


def test_maps_halve_rounded_up_and_need_not_be_square():
    maps = tiny(img_size=(112, 80)).forward_intermediates(paddle.randn([1, 3, 112, 80]), range(3))
    assert [m.shape for m in maps] == [[1, 32, 7, 5], [1, 48, 4, 3], [1, 64, 2, 2]]


def test_forward_is_the_mean_of_the_last_map():
    model = tiny()
    model.eval()
    x = paddle.randn([2, 3, 96, 96])
    assert float((model(x) - model.forward_features(x).mean([2, 3])).abs().max()) < 1e-6


@pytest.mark.parametrize("distilled", [True, False])
def test_fusing_keeps_the_outputs_and_leaves_no_norm(distilled):
    model, head = randomize(tiny(), 0.3), randomize(LeViTHead(64, 5, distilled=distilled))
    x = paddle.randn([2, 3, 96, 96])
    features = model(x)
    logits = head(features)
    fused = model.fuse()(x)
    assert float((fused - features).abs().max()) < 1e-4 * float(features.abs().max())
    assert float((head.fuse()(features) - logits).abs().max()) < 1e-4 * float(logits.abs().max())
    layers = [*model.sublayers(), *head.sublayers()]
    assert not any(isinstance(layer, (paddle.nn.BatchNorm1D, paddle.nn.BatchNorm2D)) for layer in layers)


def test_tables_of_biases_are_stretched_from_corner_to_corner():
    model = randomize(tiny())
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    larger = tiny(img_size=(160, 96))  # maps of 10x6 places instead of 6x6
    load_weights(larger, arrays)
    old = model.stages[0].blocks[0].attn.attention_biases.numpy().reshape(2, 6, 6)
    new = larger.stages[0].blocks[0].attn.attention_biases.numpy().reshape(2, 10, 6)
    np.testing.assert_allclose(new[:, [0, 9]], old[:, [0, 5]], atol=1e-6)
    np.testing.assert_allclose(new[:, 3], old[:, 1] / 3 + 2 * old[:, 2] / 3, atol=1e-5)


def test_drop_path_is_the_same_in_every_block():
    with paddle.LazyGuard():
        model = tiny(drop_path_rate=0.1)
    rates = {layer.drop_prob for name, layer in model.named_sublayers() if name.endswith("drop_path")}
    assert rates == {0.1}


def test_biases_do_not_decay_and_halving_belongs_to_the_block_before():
    with paddle.LazyGuard():
        model = tiny()
    assert len(model.no_weight_decay()) == 6
    names = {
        "stem.conv4.bn.weight": 0,
        "stages.0.blocks.0.attn.qkv.linear.weight": 1,
        "stages.1.downsample.attn_downsample.kv.linear.weight": 1,
        "stages.1.downsample.mlp.ln1.bn.bias": 1,
        "stages.1.blocks.1.mlp.ln2.linear.weight": 3,
        "stages.2.blocks.0.attn.attention_biases": 4,
    }
    assert {name: model.layer_id(name) for name in names} == names


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"img_size": 40}, "divisible by 16"), ({"num_heads": [2, 3]}, "one entry for each stage")],
)
def test_wrong_arguments_are_explained(wrong, message):
    with pytest.raises(ValueError, match=message):
        tiny(**wrong)
