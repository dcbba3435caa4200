# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.layers import resize_pos_embed, sincos_2d


def test_the_first_half_encodes_the_column_and_the_second_the_row():
    table = sincos_2d(8, (2, 3)).reshape(2, 3, 8)
    assert (table[0, :, :4] == table[1, :, :4]).all() and (table[:, 0, 4:] == table[:, 1, 4:]).all()
    angles = 2 * np.array([1.0, 1 / 100])  # column 2, frequencies 1 and 10000^(-1/2)
    np.testing.assert_allclose(table[1, 2, :4], [*np.sin(angles), *np.cos(angles)], rtol=1e-6)


def test_the_width_must_be_divisible_by_four():
    with pytest.raises(ValueError, match="divisible by 4, got 6"):
        sincos_2d(6, (2, 2))


def test_resizing_keeps_prefix_tokens_and_constant_maps():
    table = np.concatenate([np.arange(2 * 4).reshape(1, 2, 4), np.full([1, 6, 4], 3.0)], 1).astype("float32")
    resized = resize_pos_embed(table, (2, 3), (5, 4), num_prefix_tokens=2)
    assert resized.shape == [1, 2 + 20, 4]
    np.testing.assert_array_equal(resized[:, :2].numpy(), table[:, :2])
    np.testing.assert_allclose(resized[:, 2:].numpy(), 3.0, rtol=1e-5)


def test_the_same_grid_gives_the_table_itself_and_another_passes_gradients_back():
    table = paddle.create_parameter([1, 4, 2], "float32")
    assert resize_pos_embed(table, (2, 2), (2, 2)) is table
    resize_pos_embed(table, (2, 2), (3, 3), antialias=False).sum().backward()
    assert float(table.grad.sum()) == pytest.approx(18, rel=1e-4)
