# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.layers import PatchEmbed, pair, select_tokens


def test_each_token_is_its_patch_times_the_weights_row_by_row():
    paddle.seed(0)
    embed, images = PatchEmbed((4, 6), 2, 3, 5), paddle.randn([2, 3, 4, 6])
    tokens = embed(images).numpy()
    weight, bias = embed.proj.weight.numpy(), embed.proj.bias.numpy()
    assert embed.grid_size == (2, 3) and embed.num_patches == 6
    for number in range(6):
        row, column = divmod(number, 3)
        patch = images.numpy()[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        np.testing.assert_allclose(tokens[:, number], np.einsum("bchw,dchw->bd", patch, weight) + bias, atol=1e-5)


def test_another_size_is_refused_unless_any_is_welcome():
    with pytest.raises(ValueError, match="images are 6x6 pixels but the model was built for 4x4"):
        PatchEmbed(4, 2)(paddle.randn([1, 3, 6, 6]))
    embed, images = PatchEmbed(4, 2, any_size=True), paddle.randn([1, 3, 6, 8])
    assert embed(images).shape == [1, 12, 768] and embed.grid_of(images) == (3, 4)
    with pytest.raises(ValueError, match="cannot be cut into patches"):
        embed.grid_of(paddle.randn([1, 3, 7, 8]))


def test_a_size_that_patches_do_not_divide_is_refused():
    with pytest.raises(ValueError, match=r"img_size \(225, 225\) must be divisible by patch_size \(16, 16\)"):
        PatchEmbed(225, 16)


def test_pair_accepts_numbers_and_pairs():
    assert pair(3) == (3, 3) and pair([4, 5]) == (4, 5)


def test_selected_tokens_are_each_samples_own_and_pass_gradients_back():
    paddle.seed(0)
    x = paddle.randn([2, 4, 3])
    x.stop_gradient = False
    keep = np.array([[3, 0], [1, 2]])
    chosen = select_tokens(x, paddle.to_tensor(keep))
    np.testing.assert_array_equal(chosen.numpy(), np.take_along_axis(x.numpy(), keep[:, :, None], 1))
    chosen.sum().backward()
    expected = np.zeros([2, 4, 3])
    np.put_along_axis(expected, np.repeat(keep[:, :, None], 3, 2), 1.0, 1)
    np.testing.assert_array_equal(x.grad.numpy(), expected)
