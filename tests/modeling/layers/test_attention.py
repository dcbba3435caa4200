# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.layers import Attention


def randomized(**arguments):
    paddle.seed(0)
    layer = Attention(8, 2, **arguments)
    for parameter in layer.parameters():
        parameter.set_value(paddle.randn(parameter.shape) * 0.5)
    return layer


def linear(layer, x):
    return x @ layer.weight.numpy() + (0 if layer.bias is None else layer.bias.numpy())


@pytest.mark.parametrize("qkv_bias", [True, False])
def test_attention_equals_the_formula(qkv_bias):
    layer = randomized(qkv_bias=qkv_bias)
    x = paddle.randn([2, 5, 8])
    q, k, v = np.split(linear(layer.qkv, x.numpy()), 3, axis=-1)
    mixed = np.zeros([2, 5, 8])
    for b in range(2):
        for head in (slice(0, 4), slice(4, 8)):
            weights = np.exp(q[b][:, head] @ k[b][:, head].T / np.sqrt(4))
            mixed[b][:, head] = weights / weights.sum(-1, keepdims=True) @ v[b][:, head]
    np.testing.assert_allclose(layer(x).numpy(), linear(layer.proj, mixed), rtol=1e-4, atol=1e-5)


def test_few_queries_give_the_first_rows_of_all():
    layer, x = randomized(), paddle.randn([2, 5, 8])
    assert paddle.allclose(layer(x, num_queries=2), layer(x)[:, :2], atol=1e-6)


def test_width_must_be_divisible_by_heads():
    with pytest.raises(ValueError, match=r"width of 8 must be divisible by its num_heads \(=3\)"):
        Attention(8, 3)
