# SPDX-License-Identifier: Apache-2.0
"""Attention within windows of a map, and windows that are shifted by half their size.

Paper: Swin Transformer, ICCV 2021, https://arxiv.org/abs/2103.14030, sections 3.2 and 3.3
"""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

MASKED = -100.0  # added to the logit of a pair that must not see each other


class Windows(nn.Layer):
    """Runs an attention layer on each window of a map.

    A shifted map is rolled to the upper left, so that the windows stay whole; the places that come in
    from the other side are masked from those that were there.  A map that windows do not divide is
    filled up with zeros, which are masked too (the official code for detection lets them be seen, the
    one for classification refuses such maps).

    Args:
        grid_size: rows and columns of the map.
        window_size: rows and columns of a window; no larger than the map.
        shift: whether to shift by half a window, on each axis on which the map has more than one.
    Shape: x [B, h, w, C] -> [B, h, w, C].
    """

    def __init__(self, grid_size, window_size, shift):
        super().__init__()
        self.grid_size = tuple(grid_size)
        self.window_size = tuple(min(sides) for sides in zip(grid_size, window_size))
        sides = list(zip(self.grid_size, self.window_size))
        self.shift = tuple(window // 2 if shift and grid > window else 0 for grid, window in sides)
        self.padding = tuple(-grid % window for grid, window in sides)
        mask = shifted_window_mask(self.grid_size, self.window_size, self.shift)
        self.register_buffer("mask", None if mask is None else paddle.to_tensor(mask), persistable=False)

    def forward(self, x: paddle.Tensor, attention) -> paddle.Tensor:
        (rows, columns), (bottom, right), (down, across) = self.grid_size, self.padding, self.shift
        if bottom or right:
            x = F.pad(x, [0, right, 0, bottom], data_format="NHWC")
        if down or across:
            x = paddle.roll(x, [-down, -across], [1, 2])
        windows = attention(split_windows(x, self.window_size), self.mask)
        x = join_windows(windows, self.window_size, (rows + bottom, columns + right))
        if down or across:
            x = paddle.roll(x, [down, across], [1, 2])
        return x[:, :rows, :columns] if bottom or right else x


def split_windows(x: paddle.Tensor, window_size: tuple[int, int]) -> paddle.Tensor:
    """The windows of a map, row by row: [B, h, w, C] -> [B * windows, places in a window, C]."""
    (height, width), (_, rows, columns, dim) = window_size, x.shape
    x = x.reshape([-1, rows // height, height, columns // width, width, dim])
    return x.transpose([0, 1, 3, 2, 4, 5]).reshape([-1, height * width, dim])


def join_windows(windows: paddle.Tensor, window_size: tuple[int, int], grid_size: tuple[int, int]) -> paddle.Tensor:
    """The inverse of :func:`split_windows` for a map of ``grid_size``."""
    (height, width), (rows, columns), dim = window_size, grid_size, windows.shape[-1]
    x = windows.reshape([-1, rows // height, columns // width, height, width, dim])
    return x.transpose([0, 1, 3, 2, 4, 5]).reshape([-1, rows, columns, dim])


def shifted_window_mask(grid_size, window_size, shift) -> np.ndarray | None:
    """What to add to the logits of each window, or None where all places of each window may see each other.

    Shape: [windows, N, N] float32, 0 or ``MASKED``.
    """
    parts = []
    for grid, window, offset in zip(grid_size, window_size, shift):
        side = grid + -grid % window
        place = (np.arange(side) + offset) % side  # where each row or column of the rolled map comes from
        wrapped = np.arange(side) + offset >= side
        parts.append(np.where(place >= grid, 2, wrapped))  # 2: only there to fill up
    part = 3 * parts[0][:, None] + parts[1]
    (height, width), (rows, columns) = window_size, part.shape
    part = part.reshape(rows // height, height, columns // width, width).transpose(0, 2, 1, 3)
    part = part.reshape(-1, height * width)
    apart = part[:, :, None] != part[:, None, :]
    return np.where(apart, MASKED, 0.0).astype("float32") if apart.any() else None
