# SPDX-License-Identifier: Apache-2.0
"""Images to patch tokens."""

from __future__ import annotations

import paddle
from paddle import nn


def pair(value) -> tuple[int, int]:
    """``(h, w)`` from one number or a pair."""
    if isinstance(value, int):
        return value, value
    height, width = value
    return int(height), int(width)


class PatchEmbed(nn.Layer):
    """Cuts images into patches and projects each linearly.

    Paper: An Image is Worth 16x16 Words, ICLR 2021, https://arxiv.org/abs/2010.11929, eq. 1

    Args:
        img_size: height and width in pixels, one number or a pair, divisible by the patch size.
        patch_size: side of a patch in pixels, one number or a pair.
        in_chans: input channels.
        embed_dim: token width.
    Shape: [B, C, H, W] -> [B, N, embed_dim] with N = (H / p) * (W / p), row by row.
    """

    def __init__(self, img_size=224, patch_size=16, in_chans=3, embed_dim=768, bias=True):
        super().__init__()
        self.img_size, self.patch_size = pair(img_size), pair(patch_size)
        if any(s % p for s, p in zip(self.img_size, self.patch_size)):
            raise ValueError(f"img_size {self.img_size} must be divisible by patch_size {self.patch_size}")
        self.grid_size = (self.img_size[0] // self.patch_size[0], self.img_size[1] // self.patch_size[1])
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.proj = nn.Conv2D(
            in_chans, embed_dim, self.patch_size, stride=self.patch_size, bias_attr=None if bias else False
        )

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        check_image_size(images, self.img_size)
        return self.proj(images).flatten(2).transpose([0, 2, 1])  # [B, N, D]


def check_image_size(images: paddle.Tensor, expected: tuple[int, int]) -> None:
    """Raise ValueError when the images' height and width are not what the model was built for."""
    height, width = images.shape[-2:]
    if (height, width) != expected and height > 0 and width > 0:  # -1 while a static graph is traced
        raise ValueError(
            f"images are {height}x{width} pixels but the model was built for {expected[0]}x{expected[1]}: "
            f"resize the images or build the model with img_size={height if height == width else (height, width)}"
        )
