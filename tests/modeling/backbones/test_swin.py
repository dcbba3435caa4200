# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.swin import PatchMerging, Swin, SwinBlock, WindowAttention, join_neighbours
from passl.modeling.layers.window import MASKED, Windows, join_windows, split_windows
from passl.weights import load_weights

GRID, WINDOW = 8, 4


def tiny(**arguments):
    paddle.seed(0)
    sizes = {"img_size": 32, "embed_dim": 16, "depths": [2, 2, 4], "num_heads": [1, 2, 4], "window_size": WINDOW}
    return Swin(**{**sizes, **arguments})


def randomize(layer):
    for parameter in layer.parameters():
        parameter.set_value(paddle.randn(parameter.shape) * 0.5)
    layer.eval()
    return layer


def block(shift, grid=(GRID, GRID), window=(WINDOW, WINDOW)):
    paddle.seed(0)
    return randomize(SwinBlock(8, grid, window, shift, 2))


def reached(layer, grid, place):
    """Places of the output that change when ``place`` of the input does."""
    paddle.seed(1)
    x = paddle.randn([1, *grid, 8])
    changed = x.clone()
    changed[0, place[0], place[1]] = paddle.randn([8])
    moved = (layer(x) - layer(changed)).abs().max(-1)[0].numpy()
    return {(int(r), int(c)) for r, c in zip(*np.nonzero(moved))}


def neighbours(grid, window, shift, place):
    """The places that share a window with ``place``, when the cuts lie ``shift`` before multiples of the window."""

    def axis(length, window, shift, p):
        return [q for q in range(length) if (q - shift) // window == (p - shift) // window]

    return set(itertools.product(*map(axis, grid, window, shift, place)))


@pytest.mark.parametrize("place", [(0, 0), (1, 6), (3, 3), (5, 2), (7, 7)])
@pytest.mark.parametrize("shift", [False, True])
def test_a_place_reaches_exactly_its_window_in_one_block(shift, place):
    offset = (WINDOW // 2,) * 2 if shift else (0, 0)
    expected = neighbours((GRID, GRID), (WINDOW, WINDOW), offset, place)
    assert reached(block(shift), (GRID, GRID), place) == expected


@pytest.mark.parametrize("place", [(0, 0), (2, 5), (5, 8), (4, 1)])
def test_a_map_that_windows_do_not_divide_keeps_its_windows_apart(place):
    grid = (6, 9)
    assert reached(block(False, grid), grid, place) == neighbours(grid, (4, 4), (0, 0), place)
    assert reached(block(True, grid), grid, place) == neighbours(grid, (4, 4), (2, 2), place)


def test_what_fills_up_a_map_is_not_seen():
    paddle.seed(0)
    x = paddle.randn([2, 6, 4, 8])
    attention = randomize(WindowAttention(8, (4, 4), 2))
    last = paddle.concat([x[:, 4:], paddle.randn([2, 2, 4, 8])], axis=1)  # two rows and two to fill up
    below = np.where(np.arange(16) < 8, 0.0, MASKED).astype("float32")
    expected = attention(last.reshape([2, 16, 8]), paddle.to_tensor(np.tile(below, [1, 16, 1])))[:, :8]
    ours = Windows((6, 4), (4, 4), False)(x, attention)[:, 4:].reshape([2, 8, 8])
    assert float((ours - expected).abs().max()) < 1e-6


def test_an_image_reaches_every_place_of_the_last_map():
    model = randomize(tiny())
    x = paddle.zeros([1, 3, 32, 32])
    changed = x.clone()
    changed[:, :, :4, :4] = 1.0
    assert ((model.forward_features(x) - model.forward_features(changed)).abs().max(1) > 0).all()


def test_every_other_block_is_shifted_where_there_is_more_than_one_window():
    shifts = [[b.windows.shift for b in stage.blocks] for stage in tiny().layers]
    assert shifts == [[(0, 0), (2, 2)], [(0, 0)] * 2, [(0, 0)] * 4]
    assert [stage.blocks[0].windows.window_size for stage in tiny().layers] == [(4, 4), (4, 4), (2, 2)]


def test_a_window_as_wide_as_the_map_shifts_along_the_other_axis_only():
    model = tiny(img_size=(64, 16), depths=[2], num_heads=[2])
    assert model.layers[0].blocks[1].windows.shift == (2, 0)


def test_windows_are_cut_row_by_row_and_joined_again():
    x = paddle.arange(2 * 4 * 6 * 3, dtype="float32").reshape([2, 4, 6, 3])
    windows = split_windows(x, (2, 3))
    assert windows.shape == [8, 6, 3]
    assert (windows[1].reshape([2, 3, 3]) == x[0, :2, 3:]).all()
    assert (windows[6].reshape([2, 3, 3]) == x[1, 2:, :3]).all()
    assert (join_windows(windows, (2, 3), (4, 6)) == x).all()


def test_window_attention_equals_the_formula():
    paddle.seed(0)
    height, width, heads = 2, 3, 2
    layer = randomize(WindowAttention(8, (height, width), heads))
    x = paddle.randn([1, height * width, 8])
    places = list(itertools.product(range(height), range(width)))
    table = layer.relative_position_bias_table.numpy().reshape(2 * height - 1, 2 * width - 1, heads)
    qkv = x.numpy()[0] @ layer.qkv.weight.numpy() + layer.qkv.bias.numpy()
    q, k, v = (qkv[:, i * 8 : (i + 1) * 8] for i in range(3))
    out = np.zeros([6, 8])
    for h in range(heads):
        part = slice(4 * h, 4 * h + 4)
        logits = q[:, part] @ k[:, part].T / 2.0
        for i, (row, column) in enumerate(places):
            for j, (r, c) in enumerate(places):
                logits[i, j] += table[row - r + height - 1, column - c + width - 1, h]
        weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        out[:, part] = weights @ v[:, part]
    expected = out @ layer.proj.weight.numpy() + layer.proj.bias.numpy()
    np.testing.assert_allclose(layer(x).numpy()[0], expected, rtol=1e-4, atol=1e-5)


def test_neighbours_are_joined_column_by_column():
    x = paddle.arange(16, dtype="float32").reshape([1, 4, 4, 1])
    assert join_neighbours(x)[0].tolist() == [
        [[0, 4, 1, 5], [2, 6, 3, 7]],
        [[8, 12, 9, 13], [10, 14, 11, 15]],
    ]


def test_merging_norms_before_it_projects():
    merging = randomize(PatchMerging(2))
    x = paddle.randn([1, 2, 2, 2])
    expected = merging.norm(join_neighbours(x)) @ merging.reduction.weight
    assert float((merging(x) - expected).abs().max()) < 1e-6
    assert merging.reduction.bias is None


def test_maps_halve_and_double_from_stage_to_stage():
    maps = tiny(img_size=(32, 64)).forward_intermediates(paddle.randn([1, 3, 32, 64]), [0, 1, 2])
    assert [m.shape for m in maps] == [[1, 16, 8, 16], [1, 32, 4, 8], [1, 64, 2, 4]]


def test_forward_is_the_mean_of_the_last_map():
    model = tiny()
    model.eval()
    x = paddle.randn([2, 3, 32, 32])
    assert float((model(x) - model.forward_features(x).mean([2, 3])).abs().max()) < 1e-6


def test_masked_patches_have_no_influence():
    model = randomize(tiny(use_mask_token=True))
    x = paddle.randn([1, 3, 32, 32])
    changed = x.clone()
    changed[:, :, :4, :8] = 0.0
    mask = paddle.zeros([1, 64], dtype="bool")
    mask[:, :2] = True
    assert (model.forward_features(x, mask) == model.forward_features(changed, mask)).all()
    assert (model.forward_features(x) != model.forward_features(changed)).any()
    with pytest.raises(ValueError, match="use_mask_token=True"):
        tiny().forward_features(x, mask)


def test_weights_serve_another_size_with_resized_tables():
    model = randomize(tiny())
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    larger = tiny(img_size=64, window_size=8)
    assert len(load_weights(larger, arrays).resized) == 8
    tables = [m.layers[0].blocks[0].attn.relative_position_bias_table for m in (model, larger)]
    np.testing.assert_allclose(tables[1][7 * 15 + 7].numpy(), tables[0][3 * 7 + 3].numpy(), atol=1e-6)  # no offset
    wide = tiny(img_size=(48, 32))  # maps of 12x8, 6x4 and 3x2 places, windows of 4x4 and 3x2
    report = load_weights(wide, arrays)
    assert {(old, new) for _, old, new in report.resized} == {((9, 4), (15, 4))}
    assert wide(paddle.randn([1, 3, 48, 32])).shape == [1, 64]


def test_drop_path_rises_through_all_stages():
    rates = [b.drop_path.drop_prob for stage in tiny(drop_path_rate=0.7).layers for b in stage.blocks]
    np.testing.assert_allclose(rates, np.linspace(0, 0.7, 8), atol=1e-9)


def test_bias_tables_do_not_decay_and_merging_belongs_to_the_block_before():
    model = tiny(use_mask_token=True)
    names = model.no_weight_decay()
    assert len(names) == 9
    assert "layers.1.blocks.1.attn.relative_position_bias_table" in names
    assert model.layer_id("layers.1.downsample.norm.weight") == 2
    assert model.layer_id("layers.1.blocks.0.mlp.fc1.weight") == 3
    assert model.layer_id("mask_token") == model.layer_id("patch_embed.norm.weight") == 0


def test_stages_without_an_entry_are_refused():
    with pytest.raises(ValueError, match="one entry for each stage"):
        tiny(window_size=[4, 4])


def test_a_size_that_cannot_be_halved_is_refused():
    with pytest.raises(ValueError, match="multiple of 32"):
        tiny(img_size=40)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="divisible by its num_heads"):
        tiny(num_heads=[3, 2, 4])
