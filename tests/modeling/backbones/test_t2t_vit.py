# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.t2t_vit import T2TViT, TokenAttention, TokenPerformer, sinusoid_1d


def tiny(**arguments):
    paddle.seed(0)
    model = T2TViT(**{"img_size": 32, "embed_dim": 32, "depth": 3, "num_heads": 4, "token_dim": 16, **arguments})
    model.eval()
    return model


def images():
    paddle.seed(1)
    return paddle.randn([2, 3, 32, 32])


def affine(layer, x):
    return x @ layer.weight.numpy() + (0.0 if layer.bias is None else layer.bias.numpy())


def test_the_performer_equals_its_sums_with_keys_queries_and_values_in_this_order():
    paddle.seed(0)
    layer = TokenPerformer(5, 4)
    x = paddle.randn([1, 6, 5])
    k, q, v = np.split(affine(layer.kqv, layer.norm1(x).numpy()[0].astype("float64")), 3, axis=-1)
    w = layer.w.numpy().astype("float64")

    def features(vector):
        return np.exp(w @ vector - vector @ vector / 2) / np.sqrt(2)

    y = np.zeros([6, 4])
    for t in range(6):
        weights = np.array([features(q[t]) @ features(k[s]) for s in range(6)])
        y[t] = weights @ v / weights.sum()
    y = v + affine(layer.proj, y)
    expected = y + layer.mlp(layer.norm2(paddle.to_tensor(y[None].astype("float32")))).numpy()[0]
    np.testing.assert_allclose(layer(x).numpy()[0], expected, rtol=1e-4, atol=1e-5)


def test_the_performers_sums_are_taken_in_float32_under_mixed_precision():
    paddle.seed(0)
    layer = TokenPerformer(5, 64)
    q, k, v = (paddle.randn([1, 500, 64]).astype("bfloat16") for _ in range(3))
    found = layer._attend(q, k, v)
    assert found.dtype == paddle.bfloat16
    expected = layer._attend(*(part.astype("float32") for part in (q, k, v)))
    assert (found == expected.astype("bfloat16")).all()


def test_random_features_are_orthogonal_of_length_root_m_and_not_trained():
    layer = TokenPerformer(5, 16)
    assert layer.w.stop_gradient
    np.testing.assert_allclose(layer.w.numpy() @ layer.w.numpy().T, 8 * np.eye(8), atol=1e-4)


def test_token_attention_equals_the_formula_with_the_scale_of_the_incoming_width():
    paddle.seed(0)
    layer, x = TokenAttention(6, 4), paddle.randn([1, 5, 6]) * 3
    q, k, v = np.split(x.numpy()[0] @ layer.qkv.weight.numpy(), 3, axis=-1)
    weights = np.exp(q @ k.T / np.sqrt(6))
    expected = v + affine(layer.proj, weights / weights.sum(-1, keepdims=True) @ v)
    np.testing.assert_allclose(layer(x).numpy()[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tokens", ["performer", "transformer"])
def test_soft_splits_leave_sixteenths_of_each_side(tokens):
    model, counts = tiny(img_size=(64, 32), tokens=tokens), []
    module = model.tokens_to_token
    for layer in (module.attention1, module.attention2, module.project):
        layer.register_forward_pre_hook(lambda _, inputs: counts.append(inputs[0].shape[1:]))
    assert model.forward_features(paddle.randn([2, 3, 64, 32])).shape == [2, 1 + 4 * 2, 32]
    assert counts == [[16 * 8, 147], [8 * 4, 144], [4 * 2, 144]]


def test_neighbouring_windows_overlap():
    model = tiny().tokens_to_token
    x = paddle.zeros([1, 3, 32, 32])
    x.stop_gradient = False
    model(x)[:, 0].sum().backward()
    reach = np.flatnonzero(np.abs(x.grad.numpy()).max((0, 1, 3)))
    assert reach.max() >= 16  # attention sees everything; but so does the soft split beyond its 16 rows


def test_positions_are_a_sinusoid_that_is_not_trained():
    model = tiny()
    assert model.pos_embed.stop_gradient
    table = model.pos_embed.numpy()[0]
    for place in (0, 1, 4):
        for channel in (0, 1, 6, 31):
            angle = place / 10000 ** (2 * (channel // 2) / 32)
            assert table[place, channel] == pytest.approx(np.cos(angle) if channel % 2 else np.sin(angle), abs=1e-6)
    assert (sinusoid_1d(9, 32)[:5] == table).all()


def test_fixed_positions_and_random_features_are_in_the_state():
    names = set(tiny().state_dict())
    assert {"pos_embed", "tokens_to_token.attention1.w", "tokens_to_token.attention2.w"} <= names


def test_drop_path_rises_linearly_and_projections_have_no_bias():
    blocks = tiny(drop_path_rate=0.2).blocks
    assert [block.drop_path.drop_prob for block in blocks] == [0.0, 0.1, 0.2]
    assert blocks[0].attn.qkv.bias is None
    assert blocks[0].attn.scale == 8**-0.5


def test_an_unknown_kind_of_tokens_is_refused():
    with pytest.raises(ValueError, match="'performer', 'transformer'"):
        tiny(tokens="linear")
