# SPDX-License-Identifier: Apache-2.0
"""Decoders that turn encoded patches back into pixels."""

from __future__ import annotations

import paddle
from paddle import nn
from paddle.nn.initializer import Normal, XavierUniform

from passl.modeling.layers import Block, pair, sincos_2d
from passl.modeling.layers.init import zeros_
from passl.utils.registry import HEADS


@HEADS.register()
class MAEDecoder(nn.Layer):
    """A small transformer that sees the encoded visible patches and predicts the pixels of all patches.

    Paper: Masked Autoencoders Are Scalable Vision Learners, CVPR 2022, https://arxiv.org/abs/2111.06377

    Args:
        in_dim: width of the encoder's tokens.
        grid_size: rows and columns of patches, one number or a pair (14 for 224 pixels in patches of 16).
        patch_size: side of a patch in pixels.
        in_chans: channels of the images.
        embed_dim: width of the decoder.
        depth: blocks of the decoder.
        num_heads: heads of each block.
        mlp_ratio: hidden width of the MLPs over ``embed_dim``.
        num_prefix_tokens: class and register tokens in front of the encoded patches.
    Shape: tokens [B, P + M, in_dim], restore [B, N] -> [B, N, patch_size * patch_size * in_chans],
        where values of a patch run over row, column, channel.
    """

    def __init__(
        self, in_dim, grid_size=14, patch_size=16, in_chans=3, embed_dim=512, depth=8, num_heads=16,
        mlp_ratio=4.0, num_prefix_tokens=1,
    ):  # fmt: skip
        super().__init__()
        self.num_prefix_tokens = num_prefix_tokens
        self.embed = nn.Linear(in_dim, embed_dim)
        self.mask_token = self.create_parameter([1, 1, embed_dim], default_initializer=Normal(0.0, 0.02))
        positions = paddle.to_tensor(sincos_2d(embed_dim, pair(grid_size)))  # [N, D]
        self.register_buffer("pos_embed", positions, persistable=False)
        self.blocks = nn.LayerList([Block(embed_dim, num_heads, mlp_ratio) for _ in range(depth)])
        self.norm = nn.LayerNorm(embed_dim, epsilon=1e-6)
        self.pred = nn.Linear(embed_dim, patch_size * patch_size * in_chans)
        self.apply(_init_xavier)

    def forward(self, tokens: paddle.Tensor, restore: paddle.Tensor) -> paddle.Tensor:
        """Predicted patches.

        Args:
            tokens: what the encoder made of its M visible patches, in the shuffled order.
            restore: for each patch of the image its place in the shuffled order; places from M on are masked.
        """
        num_prefix, num_patches = self.num_prefix_tokens, restore.shape[1]
        if num_patches != self.pos_embed.shape[0]:
            raise ValueError(f"the decoder was built for {self.pos_embed.shape[0]} patches, got {num_patches}")
        x = self.embed(tokens)  # [B, P + M, D]
        prefix, visible = x[:, :num_prefix], x[:, num_prefix:]
        masked = self.mask_token.astype(x.dtype).expand([x.shape[0], num_patches - visible.shape[1], -1])
        x = paddle.concat([visible, masked], axis=1).take_along_axis(restore.unsqueeze(-1), axis=1)  # [B, N, D]
        x = paddle.concat([prefix, x + self.pos_embed], axis=1)
        for block in self.blocks:
            x = block(x)
        return self.pred(self.norm(x))[:, num_prefix:]


def _init_xavier(layer):
    if isinstance(layer, nn.Linear):
        XavierUniform()(layer.weight)
        zeros_(layer.bias)
