# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import paddle

from passl.modeling.layers import Mlp, QuickGELU


def test_mlp_equals_the_formula_with_the_exact_gelu():
    paddle.seed(0)
    mlp, x = Mlp(4, 6, 3), paddle.randn([2, 5, 4])
    hidden = x.numpy() @ mlp.fc1.weight.numpy() + mlp.fc1.bias.numpy()
    hidden = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    expected = hidden @ mlp.fc2.weight.numpy() + mlp.fc2.bias.numpy()
    np.testing.assert_allclose(mlp(x).numpy(), expected, atol=1e-6)


def test_widths_default_to_four_times_and_back():
    mlp = Mlp(4)
    assert mlp.fc1.weight.shape == [4, 16] and mlp.fc2.weight.shape == [16, 4]


def test_quick_gelu_is_a_sigmoid_gate():
    x = np.linspace(-3, 3, 13, dtype="float32")
    np.testing.assert_allclose(QuickGELU()(paddle.to_tensor(x)).numpy(), x / (1 + np.exp(-1.702 * x)), atol=1e-6)
