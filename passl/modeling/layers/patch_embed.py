# SPDX-License-Identifier: Apache-2.0
"""Images to patch tokens."""

from __future__ import annotations

import paddle
from paddle import nn

from .maps import as_tokens


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
        bias: whether the projection has a bias.
        any_size: accept images of any size that the patch size divides, instead of ``img_size`` only.
        proj: makes [B, embed_dim, H / p, W / p] of the images; one convolution by default.
    Shape: [B, C, H, W] -> [B, N, embed_dim] with N = (H / p) * (W / p), row by row.
    """

    def __init__(self, img_size=224, patch_size=16, in_chans=3, embed_dim=768, bias=True, any_size=False, proj=None):
        super().__init__()
        self.img_size, self.patch_size = pair(img_size), pair(patch_size)
        self.any_size = any_size
        if any(s % p for s, p in zip(self.img_size, self.patch_size)):
            raise ValueError(f"img_size {self.img_size} must be divisible by patch_size {self.patch_size}")
        self.grid_size = (self.img_size[0] // self.patch_size[0], self.img_size[1] // self.patch_size[1])
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        if proj is None:
            bias_attr = None if bias else False
            proj = nn.Conv2D(in_chans, embed_dim, self.patch_size, stride=self.patch_size, bias_attr=bias_attr)
        self.proj = proj

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        if not self.any_size:
            check_image_size(images, self.img_size)
        return as_tokens(self.proj(images))  # [B, N, D]

    def grid_of(self, images: paddle.Tensor) -> tuple[int, int]:
        """Rows and columns of patches in ``images``."""
        if not self.any_size:
            return self.grid_size
        height, width = images.shape[-2:]
        if height % self.patch_size[0] or width % self.patch_size[1]:
            raise ValueError(f"images of {height}x{width} pixels cannot be cut into patches of {self.patch_size}")
        return height // self.patch_size[0], width // self.patch_size[1]


def select_tokens(x: paddle.Tensor, keep: paddle.Tensor) -> paddle.Tensor:
    """Rows ``keep`` [B, M] (int64 token indices) of ``x`` [B, N, D], as [B, M, D]."""
    num_tokens, dim = x.shape[1:]
    first = paddle.arange(keep.shape[0], dtype=keep.dtype).unsqueeze(1) * num_tokens
    return paddle.gather(x.reshape([-1, dim]), (keep + first).flatten()).reshape([-1, keep.shape[1], dim])


def replace_masked(x: paddle.Tensor, mask: paddle.Tensor, mask_token: paddle.Tensor | None) -> paddle.Tensor:
    """Tokens ``x`` [B, N, D] with the mask token [1, 1, D] wherever ``mask`` [B, N] (bool) is true."""
    if mask_token is None:
        raise ValueError("forward_features(mask=...) needs a mask token: build the model with use_mask_token=True")
    return paddle.where(mask.unsqueeze(-1), mask_token.astype(x.dtype), x)


def check_image_size(images: paddle.Tensor, expected: tuple[int, int]) -> None:
    """Raise ValueError when the images' height and width are not what the model was built for."""
    height, width = images.shape[-2:]
    if (height, width) != expected and height > 0 and width > 0:  # -1 while a static graph is traced
        raise ValueError(
            f"images are {height}x{width} pixels but the model was built for {expected[0]}x{expected[1]}: "
            f"resize the images or build the model with img_size={height if height == width else (height, width)}"
        )
