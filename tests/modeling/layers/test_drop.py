# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.layers import DropPath, linear_drop_path


def test_whole_samples_are_zero_or_scaled_up():
    paddle.seed(0)
    y = DropPath(0.25)(paddle.ones([2000, 3, 2])).numpy().reshape(2000, -1)
    assert (y == y[:, :1]).all()
    assert set(np.unique(y)) == {np.float32(0.0), np.float32(1.0) / np.float32(0.75)}
    assert abs((y[:, 0] == 0).mean() - 0.25) < 0.04


def test_evaluation_and_rate_zero_pass_the_input_on():
    x = paddle.randn([4, 3])
    layer = DropPath(0.5)
    layer.eval()
    assert layer(x) is x and DropPath(0.0)(x) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_outside_its_range_is_refused(rate):
    with pytest.raises(ValueError, match="drop_prob must be in"):
        DropPath(rate)


def test_rates_rise_linearly_to_the_last_block():
    np.testing.assert_allclose(linear_drop_path(0.3, 4), [0.0, 0.1, 0.2, 0.3])
    assert linear_drop_path(0.3, 1) == [0.0]
