# SPDX-License-Identifier: Apache-2.0
"""The pixel reconstruction loss of masked autoencoders, and the cutting of images into patches."""

from __future__ import annotations

import math

import paddle
from paddle import nn

from passl.utils.registry import LOSSES


def patchify(images: paddle.Tensor, patch_size: int) -> paddle.Tensor:
    """Cut images into flat patches, row by row; a patch is ordered (row, column, channel).

    Shape: [B, C, H, W] -> [B, N, p * p * C] with N = (H / p) * (W / p).
    """
    batch, channels, height, width = images.shape
    if height % patch_size or width % patch_size:
        raise ValueError(f"images of {height}x{width} pixels cannot be cut into patches of {patch_size} pixels")
    rows, columns = height // patch_size, width // patch_size
    grid = images.reshape([batch, channels, rows, patch_size, columns, patch_size])
    patches = grid.transpose([0, 2, 4, 3, 5, 1])  # [B, rows, columns, p, p, C]
    return patches.reshape([batch, rows * columns, patch_size * patch_size * channels])


def unpatchify(patches: paddle.Tensor, grid_size: tuple[int, int], channels: int = 3) -> paddle.Tensor:
    """The inverse of :func:`patchify`.

    Args:
        patches: [B, N, p * p * C].
        grid_size: rows and columns of patches.
        channels: C.
    Shape: [B, N, p * p * C] -> [B, C, H, W].
    """
    rows, columns = grid_size
    patch_size = _patch_size(patches, channels)
    if patches.shape[1] != rows * columns:
        raise ValueError(f"a grid of {rows}x{columns} has {rows * columns} patches, got {patches.shape[1]}")
    grid = patches.reshape([-1, rows, columns, patch_size, patch_size, channels])
    images = grid.transpose([0, 5, 1, 3, 2, 4])  # [B, C, rows, p, columns, p]
    return images.reshape([-1, channels, rows * patch_size, columns * patch_size])


def _patch_size(patches: paddle.Tensor, channels: int) -> int:
    """Side of the square patches whose values lie on the last axis."""
    side = math.isqrt(patches.shape[-1] // channels)
    if side * side * channels != patches.shape[-1]:
        raise ValueError(f"{patches.shape[-1]} values are no square patch of {channels} channels")
    return side


@LOSSES.register()
class MaskedReconstruction(nn.Layer):
    """Mean squared error of the pixels in masked patches.

    Paper: Masked Autoencoders Are Scalable Vision Learners, CVPR 2022, https://arxiv.org/abs/2111.06377,
    section 3, "Reconstruction target"

    Args:
        norm_pix: compare with each patch's own pixels normalised to mean 0 and (unbiased) variance 1.
    Shape: predictions [B, N, p * p * C], images [B, C, H, W], mask [B, N] with 1 for masked -> scalar, float32.

    The mean runs over all masked patches of the batch, not over images.
    """

    epsilon = 1e-6  # added to the variance

    def __init__(self, norm_pix: bool = True):
        super().__init__()
        self.norm_pix = bool(norm_pix)

    def forward(self, predictions: paddle.Tensor, images: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        target = self.target(images, _patch_size(predictions, images.shape[1]))  # [B, N, p * p * C]
        error = (predictions.astype("float32") - target).square().mean(-1)  # [B, N]
        mask = mask.astype("float32")
        return (error * mask).sum() / mask.sum()

    def target(self, images: paddle.Tensor, patch_size: int) -> paddle.Tensor:
        """What the model should predict, [B, N, p * p * C]."""
        patches = patchify(images.astype("float32"), patch_size)
        if not self.norm_pix:
            return patches
        centred = patches - patches.mean(-1, keepdim=True)
        variance = centred.square().sum(-1, keepdim=True) / (patches.shape[-1] - 1)
        return centred * paddle.rsqrt(variance + self.epsilon)

    def extra_repr(self) -> str:
        return f"norm_pix={self.norm_pix}"
