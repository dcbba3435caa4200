# SPDX-License-Identifier: Apache-2.0
"""Learned positions for another image or window size."""

from __future__ import annotations

import math

import numpy as np
import paddle
import paddle.nn.functional as F

from passl.modeling.layers import pair, resize_pos_embed

from .convert.table import Arrays

BIAS_TABLE = "relative_position_bias_table"


def adapt_positions(backbone, arrays: Arrays, antialias: bool = True) -> Arrays:
    """Resample ``pos_embed`` and relative position tables whose shape differs from the backbone's.

    A backbone with positions of another kind has a method ``adapt_weights(arrays) -> arrays``, which
    runs before this; what it has brought to the right shape is left alone.

    Args:
        backbone: its state says which shapes are wanted; ``patch_embed.grid_size`` is the patch grid,
            a layer's ``window_size`` the extent of its table.
        arrays: by the backbone's names, in normal form.
        antialias: filter when shrinking, as timm does; DeiT, MAE and BEiT do not.
    """
    arrays = dict(arrays)
    for name, parameter in backbone.state_dict().items():
        array = arrays.get(name)
        if array is None or array.shape == tuple(parameter.shape):
            continue
        if name == "pos_embed" and array.ndim == 3 and array.shape[-1] == parameter.shape[-1]:
            _adapt_pos_embed(backbone, arrays, parameter.shape[1], antialias)
        elif name.endswith(BIAS_TABLE) and array.ndim == 2 and array.shape[-1] == parameter.shape[-1]:
            arrays[name] = _adapt_bias_table(backbone, name, array, parameter.shape[0])
    return arrays


def _adapt_pos_embed(backbone, arrays: Arrays, num_positions: int, antialias: bool) -> None:
    """Bring ``pos_embed`` to the backbone's grid; leaves it when its own grid cannot be told.

    A position of the class token is the same as an offset of the class token itself, so it can be
    moved from one to the other without changing the model.
    """
    grid = getattr(getattr(backbone, "patch_embed", None), "grid_size", None)
    if grid is None:
        return
    table = arrays["pos_embed"]
    wanted = num_positions - grid[0] * grid[1]
    for prefix in dict.fromkeys((wanted, 0, 1)):
        side = math.isqrt(max(table.shape[1] - prefix, 0))
        if side == 0 or side * side != table.shape[1] - prefix:
            continue
        if prefix > wanted == 0 and "cls_token" in arrays and "dist_token" not in arrays:
            arrays["cls_token"] = arrays["cls_token"] + table[:, :1]
            table, prefix = table[:, 1:], 0
        elif prefix < wanted == 1:
            table, prefix = np.concatenate([np.zeros_like(table[:, :1]), table], axis=1), 1
        if prefix == wanted:
            arrays["pos_embed"] = resize_pos_embed(table, (side, side), grid, prefix, antialias).numpy()
            return


def _adapt_bias_table(backbone, name: str, table: np.ndarray, rows: int) -> np.ndarray:
    owner = backbone
    for word in name.split(".")[:-1]:
        owner = getattr(owner, word)
    for extra in (0, 3):  # BEiT keeps three more rows for the class token
        old = math.isqrt(max(table.shape[0] - extra, 0))
        new = getattr(owner, "window_size", None) or (math.isqrt(max(rows - extra, 0)) + 1) // 2
        height, width = pair(new)
        if old % 2 and old * old == table.shape[0] - extra and (2 * height - 1) * (2 * width - 1) == rows - extra:
            return resize_bias_table(table, ((old + 1) // 2,) * 2, (height, width), extra)
    return table


def resize_bias_table(table, old_window, new_window, num_extra=0, method="geometric") -> np.ndarray:
    """Resample a table of relative position biases to another window.

    Args:
        table: [(2 h - 1) (2 w - 1) + num_extra, H], one row for each offset, one column for each head.
        old_window, new_window: rows and columns (h, w) of the windows.
        num_extra: last rows without a place in the window, kept as they are.
        method: ``"geometric"`` places the known offsets on a geometric progression, so that small
            offsets keep their meaning, and interpolates linearly between them (timm, for Swin and BEiT);
            ``"bicubic"`` stretches the table (Swin's official code).
    Shape: [(2 h' - 1) (2 w' - 1) + num_extra, H].
    """
    old, new = [2 * side - 1 for side in old_window], [2 * side - 1 for side in new_window]
    kept = table.shape[0] - num_extra
    grid = table[:kept].astype(np.float32).reshape(*old, -1)
    if method == "geometric":
        for axis in (axis for axis in (0, 1) if old[axis] != new[axis]):
            places, wanted = _geometric_places(old[axis], new[axis]), np.arange(new[axis]) - new[axis] // 2
            grid = np.apply_along_axis(lambda values, x=wanted, xp=places: np.interp(x, xp, values), axis, grid)
    elif method == "bicubic":
        maps = paddle.to_tensor(np.ascontiguousarray(grid.transpose(2, 0, 1)[None]))
        grid = F.interpolate(maps, size=new, mode="bicubic", align_corners=False)[0].transpose([1, 2, 0]).numpy()
    else:
        raise ValueError(f"method must be 'geometric' or 'bicubic', got {method!r}")
    return np.concatenate([grid.reshape(new[0] * new[1], -1), table[kept:]]).astype(np.float32)


def _geometric_places(old: int, new: int) -> np.ndarray:
    """Symmetric positions 0, ±1, ±(1 + q), ±(1 + q + q²), ... of ``old`` offsets that reach to ``new // 2``."""
    low, high, ratio = 1.01, 1.5, 1.0  # as precise as the original, whose last trial value is the ratio
    while high - low > 1e-6:
        ratio = (low + high) / 2
        too_far = (1 - ratio ** (old // 2)) / (1 - ratio) > new // 2
        low, high = (low, ratio) if too_far else (ratio, high)
    side = np.cumsum(ratio ** np.arange(old // 2))
    return np.concatenate([-side[::-1], [0.0], side])
