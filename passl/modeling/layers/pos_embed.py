# SPDX-License-Identifier: Apache-2.0
"""Position embeddings: fixed sine-cosine tables and resizing of learned ones."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F


def sincos_2d(embed_dim: int, grid_size: tuple[int, int], temperature: float = 10000.0) -> np.ndarray:
    """MAE's fixed table: the first half of the channels encodes the column, the second the row.

    Paper: Masked Autoencoders Are Scalable Vision Learners, CVPR 2022, https://arxiv.org/abs/2111.06377

    Args:
        embed_dim: token width, divisible by 4.
        grid_size: rows and columns of patches.
    Shape: [rows * columns, embed_dim] float32; each half is [sin | cos].
    """
    if embed_dim % 4:
        raise ValueError(f"sine-cosine positions need embed_dim divisible by 4, got {embed_dim}")
    rows, columns = np.meshgrid(np.arange(grid_size[0]), np.arange(grid_size[1]), indexing="ij")
    omega = temperature ** -(np.arange(embed_dim // 4, dtype=np.float64) / (embed_dim / 4.0))

    def encode(position):
        angle = position.reshape(-1, 1) * omega
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)

    return np.concatenate([encode(columns), encode(rows)], axis=1).astype(np.float32)


def resize_pos_embed(table, old_grid, new_grid, num_prefix_tokens=0, antialias=True, mode="bicubic"):
    """Resample learned absolute positions to another patch grid, keeping prefix tokens.

    Args:
        table: [1, P + N, D] with N = old_grid[0] * old_grid[1].
        old_grid, new_grid: rows and columns of patches; need not be square.
        num_prefix_tokens: leading entries (class, register) that have no place in the grid.
        antialias: timm's choice; MAE, DeiT and BEiT resize without.
        mode: "bicubic" or "bilinear" (PVT).
    Shape: [1, P + N', D].
    """
    if isinstance(
        table, np.ndarray
    ):  # not "no Tensor": under to_static it is a graph's value, which to_tensor detaches
        table = paddle.to_tensor(table, dtype="float32")
    if tuple(old_grid) == tuple(new_grid):
        return table
    prefix, grid = table[:, :num_prefix_tokens], table[:, num_prefix_tokens:]
    grid = grid.reshape([1, *old_grid, -1]).transpose([0, 3, 1, 2])  # [1, D, h, w]
    grid = F.interpolate(grid, size=list(new_grid), mode=mode, align_corners=False, antialias=antialias)
    grid = grid.transpose([0, 2, 3, 1]).flatten(1, 2)
    return paddle.concat([prefix, grid], axis=1)
