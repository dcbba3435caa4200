# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.heads.decoders import MAEDecoder
from passl.modeling.layers import sincos_2d

GRID, WIDTH, KEPT = (2, 3), 16, 2
NUM_PATCHES = GRID[0] * GRID[1]


def decoder(depth=1, **arguments):
    paddle.seed(0)
    return MAEDecoder(12, GRID, patch_size=4, embed_dim=WIDTH, depth=depth, num_heads=4, **arguments)


def shuffle(seed=0):
    """A random order of the patches and, for each patch, its place in that order."""
    order = np.random.RandomState(seed).permutation(NUM_PATCHES)
    return order, paddle.to_tensor(np.argsort(order)[None])


def test_all_patches_are_predicted_in_pixels():
    _, restore = shuffle()
    assert decoder()(paddle.randn([1, 1 + KEPT, 12]), restore).shape == [1, NUM_PATCHES, 4 * 4 * 3]
    assert decoder(in_chans=1)(paddle.randn([1, 1 + KEPT, 12]), restore).shape == [1, NUM_PATCHES, 4 * 4]


def test_without_blocks_it_is_the_formula_patch_by_patch():
    model = decoder(depth=0)
    order, restore = shuffle()
    tokens = paddle.randn([1, 1 + KEPT, 12])
    predictions = model(tokens, restore)[0]
    embedded = model.embed(tokens)[0, 1:]
    for patch in range(NUM_PATCHES):
        place = list(order).index(patch)
        content = embedded[place] if place < KEPT else model.mask_token[0, 0]
        expected = model.pred(model.norm(content + paddle.to_tensor(sincos_2d(WIDTH, GRID)[patch : patch + 1])))
        assert paddle.allclose(predictions[patch], expected[0], atol=1e-5)


def test_the_order_in_which_patches_were_kept_does_not_matter():
    model = decoder(depth=2)
    order, restore = shuffle()
    tokens = paddle.randn([1, 1 + KEPT, 12])
    swapped = order.copy()
    swapped[[0, 1]] = order[[1, 0]]
    again = model(tokens[:, [0, 2, 1]], paddle.to_tensor(np.argsort(swapped)[None]))
    assert paddle.allclose(model(tokens, restore), again, atol=1e-5)


def test_prefix_tokens_are_seen_but_not_predicted():
    model = decoder(num_prefix_tokens=3)
    _, restore = shuffle()
    tokens = paddle.randn([1, 3 + KEPT, 12])
    changed = tokens.clone()
    changed[:, 2] += 1.0
    predictions = model(tokens, restore)
    assert predictions.shape[1] == NUM_PATCHES
    assert (predictions != model(changed, restore)).any()


def test_every_parameter_gets_a_gradient_and_positions_are_not_saved():
    model = decoder()
    _, restore = shuffle()
    model(paddle.randn([1, 1 + KEPT, 12]), restore).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []
    assert "pos_embed" not in model.state_dict()


def test_another_number_of_patches_is_refused():
    with pytest.raises(ValueError, match="built for 6 patches, got 4"):
        decoder()(paddle.randn([1, 3, 12]), paddle.to_tensor([[0, 1, 2, 3]]))
