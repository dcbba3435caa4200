# SPDX-License-Identifier: Apache-2.0
"""MLP-Mixer: one perceptron along the patches, one along the channels, in turn.

Paper: MLP-Mixer: An all-MLP Architecture for Vision, NeurIPS 2021, https://arxiv.org/abs/2105.01601
Official code: https://github.com/google-research/vision_transformer; its GELU is the tanh approximation,
this one is exact, as in timm.
"""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers import DropPath, Mlp, linear_drop_path
from passl.modeling.layers.init import init_lecun
from passl.utils.registry import BACKBONES

from .patch_mlp import PatchMLP, over_patches


class MixerBlock(nn.Layer):
    """U = X + token-mixing(norm(X)), Y = U + channel-mixing(norm(U)), equation 1 of the paper.

    Args:
        dim: token width.
        num_tokens: number of patches N.
        tokens_mlp_dim: hidden width of the perceptron along the patches.
        channels_mlp_dim: hidden width of the perceptron along the channels.
        drop: dropout in both, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
        epsilon: of the LayerNorms.
    Shape: [B, N, dim] -> [B, N, dim].
    """

    def __init__(self, dim, num_tokens, tokens_mlp_dim, channels_mlp_dim, drop, drop_path, epsilon):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp_tokens = Mlp(num_tokens, tokens_mlp_dim, drop=drop)
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp_channels = Mlp(dim, channels_mlp_dim, drop=drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self.drop_path(over_patches(self.mlp_tokens, self.norm1(x)))
        return x + self.drop_path(self.mlp_channels(self.norm2(x)))


@BACKBONES.register()
class Mixer(PatchMLP):
    """MLP-Mixer.

    Args:
        img_size, patch_size, in_chans, embed_dim, depth: see :class:`PatchMLP`.
        tokens_mlp_dim: hidden width along the patches (D_S), the same for every channel.
        channels_mlp_dim: hidden width along the channels (D_C).
        drop_rate: dropout in the perceptrons, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        epsilon: of the LayerNorms.
    Shape: images [B, C, H, W] -> [B, embed_dim].
    """

    def __init__(
        self, img_size=224, patch_size=16, in_chans=3, embed_dim=768, depth=12, tokens_mlp_dim=384,
        channels_mlp_dim=3072, drop_rate=0.0, drop_path_rate=0.0, epsilon=1e-6,
    ):  # fmt: skip
        rates = linear_drop_path(drop_path_rate, depth)

        def block(i, num_tokens):
            return MixerBlock(embed_dim, num_tokens, tokens_mlp_dim, channels_mlp_dim, drop_rate, rates[i], epsilon)

        norm = nn.LayerNorm(embed_dim, epsilon=epsilon)
        super().__init__(img_size, patch_size, in_chans, embed_dim, block, depth, norm)
        self.apply(init_lecun)
