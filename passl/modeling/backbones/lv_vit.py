# SPDX-License-Identifier: Apache-2.0
"""LV-ViT: a ViT whose patches are classified too, behind a convolutional stem.

Paper: All Tokens Matter: Token Labeling for Training Better Vision Transformers, NeurIPS 2021,
https://arxiv.org/abs/2104.10858

State names are those of the official code.
"""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import Block, as_tokens, check_image_size, linear_drop_path, pair
from passl.modeling.layers.init import trunc_normal_
from passl.utils.registry import BACKBONES

from .class_token_vit import ClassTokenViT


class StemPatchEmbed(nn.Layer):
    """Three convolutions, the first of stride 2, each with BatchNorm and ReLU; then patches of what they give.

    Args:
        img_size: height and width in pixels, one number or a pair, divisible by the patch size.
        patch_size: side of a patch in pixels, even.
        in_chans: input channels.
        embed_dim: token width D.
        stem_dim: width of the three convolutions.
    Shape: [B, C, H, W] -> [B, N, D] with N = (H / p) * (W / p), row by row.
    """

    def __init__(self, img_size, patch_size, in_chans, embed_dim, stem_dim):
        super().__init__()
        self.img_size = pair(img_size)
        if patch_size % 2:
            raise ValueError(f"the stem halves the image, so patch_size must be even, got {patch_size}")
        if any(side % patch_size for side in self.img_size):
            raise ValueError(f"img_size {self.img_size} must be divisible by patch_size {patch_size}")
        self.grid_size = (self.img_size[0] // patch_size, self.img_size[1] // patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.conv1 = nn.Conv2D(in_chans, stem_dim, 7, stride=2, padding=3, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(stem_dim)
        self.conv2 = nn.Conv2D(stem_dim, stem_dim, 3, padding=1, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(stem_dim)
        self.conv3 = nn.Conv2D(stem_dim, stem_dim, 3, padding=1, bias_attr=False)
        self.bn3 = nn.BatchNorm2D(stem_dim)
        self.proj = nn.Conv2D(stem_dim, embed_dim, patch_size // 2, stride=patch_size // 2)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        check_image_size(images, self.img_size)
        x = F.relu(self.bn1(self.conv1(images)))  # [B, stem_dim, H / 2, W / 2]
        x = F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.bn3(self.conv3(x)))
        return as_tokens(self.proj(x))


class ScaledBlock(Block):
    """The pre-norm block with both branches divided by ``skip_lam``.

    Args: those of :class:`Block`, and ``skip_lam``.
    Shape: as :class:`Block`.
    """

    def __init__(self, *arguments, skip_lam=1.0, **options):
        super().__init__(*arguments, **options)
        self.skip_lam = skip_lam

    def forward(self, x: paddle.Tensor, num_queries: int | None = None) -> paddle.Tensor:
        update = self.drop_path(self.attn(self.norm1(x), num_queries)) / self.skip_lam
        x = (x if num_queries is None else x[:, :num_queries]) + update
        return x + self.drop_path(self.mlp(self.norm2(x))) / self.skip_lam


@BACKBONES.register()
class LVViT(ClassTokenViT):
    """ViT with a convolutional stem and damped residual branches, made to be trained with a label for each patch.

    Args:
        img_size: height and width in pixels, one number or a pair.
        patch_size: side of a patch in pixels, even.
        in_chans, embed_dim, depth, num_heads, mlp_ratio, qkv_bias: see :class:`ViT`.
        skip_lam: divisor of the residual branches.
        stem_dim: width of the stem's convolutions.
        drop_rate, attn_drop_rate, epsilon: see :class:`ViT`.
        drop_path_rate: stochastic depth in [0, 1) of the last block, rising linearly from 0.
        return_tokens: give all tokens, which ``TokenLabelHead`` classifies, instead of the class token.
    Shape: images [B, C, H, W] -> [B, D], or with ``return_tokens`` [B, 1 + N, D], class token first.
    """

    def __init__(
        self, img_size=224, patch_size=16, in_chans=3, embed_dim=384, depth=16, num_heads=6, mlp_ratio=3.0,
        qkv_bias=False, skip_lam=2.0, stem_dim=64, drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0,
        return_tokens=False, epsilon=1e-5,
    ):  # fmt: skip
        super().__init__()
        self.return_tokens = return_tokens
        self.patch_embed = StemPatchEmbed(img_size, patch_size, in_chans, embed_dim, stem_dim)
        self.pos_embed = self.create_parameter([1, 1 + self.patch_embed.num_patches, embed_dim])
        sizes = (embed_dim, num_heads, mlp_ratio, qkv_bias, drop_rate, attn_drop_rate)
        self.blocks = nn.LayerList(
            [
                ScaledBlock(*sizes, rate, epsilon=epsilon, skip_lam=skip_lam)
                for rate in linear_drop_path(drop_path_rate, depth)
            ]
        )
        self._finish(embed_dim, drop_rate, epsilon)
        trunc_normal_(self.pos_embed)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The normed class token [B, D], or with ``return_tokens`` all normed tokens [B, 1 + N, D]."""
        return self.forward_features(images) if self.return_tokens else super().forward(images)
