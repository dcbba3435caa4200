# SPDX-License-Identifier: Apache-2.0
"""Position embeddings: fixed sine-cosine tables and resizing of learned ones."""

from __future__ import annotations

import math

import numpy as np
import paddle


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
    (height, width), dim = old_grid, table.shape[-1]
    down, across = (
        paddle.to_tensor(resampling_matrix(old, new, mode, antialias)) for old, new in zip(old_grid, new_grid)
    )
    with paddle.amp.auto_cast(enable=False):  # two products, but places need float32
        rows = paddle.matmul(down, grid.reshape([height, width * dim])).reshape([-1, width, dim])  # [h', w, D]
        grid = paddle.matmul(across, rows).reshape([1, -1, dim])
    return paddle.concat([prefix, grid], axis=1)


def resampling_matrix(old: int, new: int, mode: str, antialias: bool) -> np.ndarray:
    """Weights of ``old`` places on a line for each of ``new`` places on the same line: [new, old] float32.

    PyTorch's kernels: cubic with a = -0.75, or -0.5 with ``antialias``, which also widens the kernel when
    places become fewer and drops what lies outside; without it the places at the ends stand for those outside.
    """
    if mode not in ("bilinear", "bicubic"):
        raise ValueError(f"mode must be 'bilinear' or 'bicubic', got {mode!r}")
    reach = 1 if mode == "bilinear" else 2
    scale = old / new
    stretch = max(scale, 1.0) if antialias else 1.0
    centre = (np.arange(new)[:, None] + 0.5) * scale - 0.5
    margin = math.ceil(reach * stretch)
    place = np.arange(-margin, old + margin)
    distance = np.abs(place - centre) / stretch
    weights = (
        _linear(distance) if reach == 1 else _cubic(distance, -0.5 if antialias else -0.75)
    )  # [new, old + 2 margins]
    inside = weights[:, margin:-margin].copy()
    if not antialias:
        inside[:, 0] += weights[:, :margin].sum(1)
        inside[:, -1] += weights[:, -margin:].sum(1)
    return (inside / inside.sum(1, keepdims=True)).astype(np.float32)


def _linear(x):
    return np.clip(1.0 - x, 0.0, None)


def _cubic(x, a):
    """Keys's kernel (IEEE Transactions on Acoustics, Speech, and Signal Processing, 1981, eq. 4)."""
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * (x**3 - 5 * x**2 + 8 * x - 4)
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))
