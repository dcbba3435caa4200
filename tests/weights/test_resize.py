# SPDX-License-Identifier: Apache-2.0
"""Positions for another size: reference values, and what must not change."""

from pathlib import Path

import numpy as np
import paddle
import pytest

from passl.modeling.backbones import CaiT, ViT
from passl.modeling.layers import resize_pos_embed
from passl.weights.resize import adapt_positions, resize_bias_table

# Random tables resized by timm 1.0.31 and, "bicubic", by Swin's official code.
EXPECTED = np.load(Path(__file__).parent / "data" / "bias_tables.npz")


def normal(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("method", ["geometric", "bicubic"])
@pytest.mark.parametrize(
    "case, table, old, new, extra",
    [("swin_7_to_12", normal(7002, 169, 3), 7, 12, 0), ("beit_14_to_24", normal(7003, 732, 2), 14, 24, 3)],
)
def test_bias_tables_equal_the_references(case, table, old, new, extra, method):
    resized = resize_bias_table(table, (old, old), (new, new), extra, method)
    np.testing.assert_allclose(resized, EXPECTED[f"{case}/{method}"], atol=4e-6)


def test_bias_tables_of_the_same_window_are_unchanged_and_windows_need_not_be_square():
    table = normal(1, 13 * 13, 2)
    np.testing.assert_allclose(resize_bias_table(table, (7, 7), (7, 7), method="bicubic"), table, atol=1e-6)
    rows = resize_bias_table(np.tile(np.arange(13.0)[:, None, None], (1, 13, 1)).reshape(-1, 1), (7, 7), (7, 9))
    assert rows.shape == (13 * 17, 1)
    np.testing.assert_allclose(rows.reshape(13, 17), np.tile(np.arange(13.0)[:, None], (1, 17)), atol=1e-5)
    with pytest.raises(ValueError, match="bicubic"):
        resize_bias_table(table, (7, 7), (9, 9), method="nearest")


class Tokens(paddle.nn.Layer):
    """A backbone with ``prefix`` positions for prefix tokens on a 2 x 3 grid."""

    def __init__(self, prefix):
        super().__init__()
        self.cls_token = self.create_parameter([1, 1, 4])
        self.pos_embed = self.create_parameter([1, prefix + 6, 4])
        self.patch_embed = paddle.nn.Layer()
        self.patch_embed.grid_size = (2, 3)


@pytest.mark.parametrize("antialias", [True, False])
def test_pos_embed_is_resampled_to_the_backbones_grid_behind_its_prefix(antialias):
    arrays = {"cls_token": normal(1, 1, 1, 4), "pos_embed": normal(2, 1, 17, 4)}
    adapted = adapt_positions(Tokens(prefix=1), arrays, antialias)["pos_embed"]
    expected = resize_pos_embed(arrays["pos_embed"], (4, 4), (2, 3), 1, antialias).numpy()
    np.testing.assert_array_equal(adapted, expected)
    np.testing.assert_array_equal(adapted[:, 0], arrays["pos_embed"][:, 0])


def test_both_prefix_positions_of_a_distilled_model_stay():
    small, wide = (ViT(size, 8, embed_dim=16, depth=1, num_heads=2, distilled=True) for size in (32, (32, 64)))
    arrays = {name: tensor.numpy() for name, tensor in small.state_dict().items()}
    adapted = adapt_positions(wide, arrays)["pos_embed"]
    assert adapted.shape == (1, 2 + 32, 16)
    np.testing.assert_array_equal(adapted[:, :2], arrays["pos_embed"][:, :2])


def test_the_class_tokens_position_moves_into_the_class_token_where_the_backbone_has_no_place_for_it():
    arrays = {"cls_token": normal(1, 1, 1, 4), "pos_embed": normal(2, 1, 17, 4)}
    adapted = adapt_positions(Tokens(prefix=0), arrays)
    np.testing.assert_allclose(adapted["cls_token"], arrays["cls_token"] + arrays["pos_embed"][:, :1])
    assert adapted["pos_embed"].shape == (1, 6, 4)
    back = adapt_positions(Tokens(prefix=1), {"cls_token": arrays["cls_token"], "pos_embed": normal(2, 1, 16, 4)})
    np.testing.assert_array_equal(back["pos_embed"][:, 0], 0)


def test_positions_whose_grid_cannot_be_told_are_left_for_the_report():
    arrays = {"cls_token": normal(1, 1, 1, 4), "pos_embed": normal(2, 1, 19, 4)}
    assert adapt_positions(Tokens(prefix=1), arrays)["pos_embed"].shape == (1, 19, 4)


def test_a_window_layers_own_size_decides_for_its_table():
    layer = paddle.nn.Layer()
    layer.attn = paddle.nn.Layer()
    layer.attn.window_size = (2, 4)
    layer.attn.relative_position_bias_table = layer.create_parameter([3 * 7, 2])
    name = "attn.relative_position_bias_table"
    table = normal(3, 25, 2)
    adapted = adapt_positions(layer, {name: table})[name]
    np.testing.assert_array_equal(adapted, resize_bias_table(table, (3, 3), (2, 4)))


def test_a_backbone_of_another_size_runs_with_resized_positions():
    small = CaiT(32, 8, 3, 16, 1, 2)
    arrays = {name: tensor.numpy() for name, tensor in small.state_dict().items()}
    wide = CaiT((32, 64), 8, 3, 16, 1, 2)
    assert adapt_positions(wide, arrays)["pos_embed"].shape == (1, 32, 16)


def test_beits_three_extra_rows_are_told_from_the_table_alone():
    layer = paddle.nn.Layer()
    layer.relative_position_bias_table = layer.create_parameter([5 * 5 + 3, 2])
    table = normal(3, 3 * 3 + 3, 2)
    adapted = adapt_positions(layer, {"relative_position_bias_table": table})["relative_position_bias_table"]
    np.testing.assert_array_equal(adapted, resize_bias_table(table, (2, 2), (3, 3), num_extra=3))
    np.testing.assert_array_equal(adapted[-3:], table[-3:])
