# SPDX-License-Identifier: Apache-2.0
"""A patch embedding in three steps that keeps patches apart.

Paper: Three things everyone should know about Vision Transformers, ECCV 2022,
https://arxiv.org/abs/2203.09795, section 5
"""

from __future__ import annotations

from functools import partial

from paddle import nn

from .norm import LayerNorm2d
from .patch_embed import pair

STEMS = ("linear", "hmlp", "hmlp_ln")


class HMLPStem(nn.Sequential):
    """Squares of 4x4 pixels, then of 8x8, then the patch of 16x16, each from the four within it, normed between.

    No convolution reaches over the edge of a patch: a token depends on its own patch alone, so that patches can
    be masked before or after.  With BatchNorm that holds in evaluation; in training the statistics are of all
    patches, masked ones too, so for pre-training on masked images LayerNorm is the safe choice.

    Args:
        in_chans: input channels.
        embed_dim: token width, divisible by 4.
        norm: class of the norms of maps.
    Shape: [B, C, H, W] -> [B, embed_dim, H / 16, W / 16].
    """

    def __init__(self, in_chans=3, embed_dim=768, norm=nn.BatchNorm2D):
        if embed_dim % 4:
            raise ValueError(f"the hMLP stem needs embed_dim divisible by 4, got {embed_dim}")
        width = embed_dim // 4
        super().__init__(
            nn.Conv2D(in_chans, width, 4, stride=4),
            norm(width),
            nn.GELU(),
            nn.Conv2D(width, width, 2, stride=2),
            norm(width),
            nn.GELU(),
            nn.Conv2D(width, embed_dim, 2, stride=2),
            norm(embed_dim),
        )


def stem_projection(stem: str, patch_size, in_chans: int, embed_dim: int) -> nn.Layer | None:
    """What takes the place of the linear projection in a :class:`PatchEmbed`; None for the linear one.

    Args:
        stem: "linear", "hmlp" (with BatchNorm) or "hmlp_ln" (with LayerNorm).
    Raises:
        ValueError: another stem, or patches that are not of 16 pixels.
    """
    if stem not in STEMS:
        raise ValueError(f"stem must be one of {', '.join(map(repr, STEMS))}, got {stem!r}")
    if stem == "linear":
        return None
    if pair(patch_size) != (16, 16):
        raise ValueError(f"stem {stem!r} is made for patch_size=16, got {patch_size}; use stem='linear'")
    norm = nn.BatchNorm2D if stem == "hmlp" else partial(LayerNorm2d, epsilon=1e-6)
    return HMLPStem(in_chans, embed_dim, norm)
