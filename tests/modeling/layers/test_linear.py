# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle
import paddle.nn.functional as F
import pytest

from passl.modeling.layers import Linear


@pytest.mark.parametrize("shape", [[7, 6], [2, 5, 6], [2, 3, 4, 6]])
@pytest.mark.parametrize("bias_attr", [None, False])
def test_output_and_gradients_equal_paddles_linear(shape, bias_attr):
    paddle.seed(0)
    layer, x = Linear(6, 3, bias_attr=bias_attr), paddle.randn(shape)
    if layer.bias is not None:
        layer.bias.set_value(paddle.randn([3]))
    x.stop_gradient = False
    wanted = [x, *layer.parameters()]
    output, expected = layer(x), F.linear(x, layer.weight, layer.bias)
    assert paddle.allclose(output, expected, atol=1e-6)
    direction = paddle.randn(output.shape)
    for mine, reference in zip(paddle.grad(output, wanted, direction), paddle.grad(expected, wanted, direction)):
        assert mine.shape == reference.shape and paddle.allclose(mine, reference, atol=1e-5)


def test_evaluation_is_paddles_own():
    paddle.seed(0)
    layer, x = Linear(6, 3), paddle.randn([4, 6])
    layer.eval()
    assert bool((layer(x) == F.linear(x, layer.weight, layer.bias)).all())


def test_state_names_are_paddles():
    assert list(Linear(2, 2).state_dict()) == ["weight", "bias"]
