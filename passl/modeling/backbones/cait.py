# SPDX-License-Identifier: Apache-2.0
"""CaiT: a deep transformer on patches only, whose class token enters in the last two blocks.

Paper: Going Deeper with Image Transformers, ICCV 2021, https://arxiv.org/abs/2103.17239
Talking heads: Talking-Heads Attention, 2020, https://arxiv.org/abs/2003.02436

State names are those of the official code and of timm, which agree.
"""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import ClassAttention, DropPath, Linear, Mlp, PatchEmbed, as_map, select_tokens
from passl.modeling.layers.attention import head_width
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.intermediates import block_indices
from passl.utils.registry import BACKBONES

from .base import TokenBackbone


class TalkingHeadAttention(nn.Layer):
    """Self-attention whose heads are mixed linearly before and after the softmax.

    With S_i = q_i k_i^T / sqrt(d) of head i: A_o = softmax(sum_i L[i, o] S_i + l_o), and head o's
    output is (sum_i W[i, o] A_i + w_o) v_o.

    Heads are the leading axis throughout: mixing them is then one product with a matrix of
    B * N * N columns instead of a transposed one with rows of length H.

    Args:
        dim: token width, divisible by ``num_heads``.
        num_heads: number of heads.
        qkv_bias: whether the joint q, k, v projection has a bias.
        attn_drop: dropout on the mixed attention weights, in [0, 1).
        proj_drop: dropout on the output, in [0, 1).
    Shape: [B, N, D] -> [B, N, D].
    """

    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_width(dim, num_heads)
        self.qkv = Linear(dim, 3 * dim, bias_attr=None if qkv_bias else False)
        self.proj_l = nn.Linear(num_heads, num_heads)
        self.proj_w = nn.Linear(num_heads, num_heads)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        num_tokens, dim = x.shape[1:]
        qkv = self.qkv(x).reshape([-1, num_tokens, 3, self.num_heads, self.head_dim])
        q, k, v = qkv.transpose([2, 3, 0, 1, 4]).unbind(0)  # [H, B, N, d] each
        attn = paddle.matmul(q * self.head_dim**-0.5, k, transpose_y=True)  # [H, B, N, N]
        attn = F.softmax(_mix_heads(self.proj_l, attn), axis=-1)
        attn = self.attn_drop(_mix_heads(self.proj_w, attn))
        x = paddle.matmul(attn, v).transpose([1, 2, 0, 3])  # [B, N, H, d]
        return self.proj_drop(self.proj(x.reshape([-1, num_tokens, dim])))


class CaiTBlock(nn.Layer):
    """Pre-norm block with LayerScale on both branches (eq. 4); serves patches and the class token alike.

    Args:
        dim: token width.
        attn: attention layer, applied to the normed tokens.
        mlp_ratio: hidden width of the MLP over ``dim``.
        drop: dropout in the MLP, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
        init_scale: initial LayerScale factor.
    Shape: x [B, M, D] -> [B, M, D]; with ``patches`` [B, N, D] attention sees both, x first, and only x changes.
    """

    def __init__(self, dim, attn, mlp_ratio, drop, drop_path, init_scale, epsilon):
        super().__init__()
        initial = nn.initializer.Constant(init_scale)
        self.gamma_1 = self.create_parameter([dim], default_initializer=initial)
        self.gamma_2 = self.create_parameter([dim], default_initializer=initial)
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.attn = attn
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop=drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor, *patches: paddle.Tensor) -> paddle.Tensor:
        tokens = paddle.concat([x, *patches], axis=1) if patches else x
        x = x + self.drop_path(self.gamma_1 * self.attn(self.norm1(tokens)))
        return x + self.drop_path(self.gamma_2 * self.mlp(self.norm2(x)))


@BACKBONES.register()
class CaiT(TokenBackbone):
    """Class-Attention in Image Transformers.

    ``depth`` talking-heads blocks refine the patches alone; then ``depth_token_only`` class-attention
    blocks gather them into the class token, and leave the patches as they are.

    Args:
        img_size, patch_size, in_chans, embed_dim, num_heads, mlp_ratio, qkv_bias: see :class:`ViT`.
        depth: number of self-attention blocks.
        drop_rate, attn_drop_rate: dropout of tokens and of attention weights, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1): the same in every self-attention block, 0 in the
            class-attention blocks.
        init_scale: initial LayerScale factor (1e-5 for 24 and small 36-block models, else 1e-6).
        depth_token_only: number of class-attention blocks.
        epsilon: of the LayerNorms.
    Shape: images [B, C, H, W] -> [B, embed_dim].
    """

    num_prefix_tokens = 1
    block_lists = ("blocks", "blocks_token_only")

    def __init__(
        self, img_size=224, patch_size=16, in_chans=3, embed_dim=384, depth=24, num_heads=8, mlp_ratio=4.0,
        qkv_bias=True, drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0, init_scale=1e-5,
        depth_token_only=2, epsilon=1e-6,
    ):  # fmt: skip
        super().__init__()
        self.num_features = embed_dim
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.pos_embed = self.create_parameter([1, self.patch_embed.num_patches, embed_dim])
        self.pos_drop = nn.Dropout(drop_rate)
        self.cls_token = self.create_parameter([1, 1, embed_dim])

        def block(attention, drop_path):
            attn = attention(embed_dim, num_heads, qkv_bias, attn_drop_rate, drop_rate)
            return CaiTBlock(embed_dim, attn, mlp_ratio, drop_rate, drop_path, init_scale, epsilon)

        self.blocks = nn.LayerList([block(TalkingHeadAttention, drop_path_rate) for _ in range(depth)])
        self.blocks_token_only = nn.LayerList([block(ClassAttention, 0.0) for _ in range(depth_token_only)])
        self.norm = nn.LayerNorm(embed_dim, epsilon=epsilon)

        self.apply(init_vit)
        init_torch_conv(self.patch_embed.proj)
        trunc_normal_(self.cls_token)
        trunc_normal_(self.pos_embed)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The normed class token, [B, D]."""
        return self.forward_features(images)[:, 0]

    def forward_features(self, images: paddle.Tensor, keep: paddle.Tensor | None = None) -> paddle.Tensor:
        """Normed tokens, class token first, [B, 1 + N, D].

        Args:
            keep: [B, M] indices of the patches to encode; the others are left out and N becomes M.
        """
        x = self._embed(images, keep)
        for block in self.blocks:
            x = block(x)
        cls_token = self.cls_token.expand([x.shape[0], -1, -1])
        for block in self.blocks_token_only:
            cls_token = block(cls_token, x)
        return self.norm(paddle.concat([cls_token, x], axis=1))

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The normed patches after the self-attention blocks ``indices`` as maps; later blocks are not run.

        Args:
            indices: block numbers; negative ones count from the end.
        Shape: [B, D, h, w] for each index, in the order asked for.
        """
        tokens = self._run(images, block_indices(indices, len(self.blocks)))
        return [as_map(self.norm(x), self.patch_embed.grid_size) for x in tokens]

    def _embed(self, images, keep=None):
        """Patch tokens that enter the first block, [B, N, D]."""
        x = self.pos_drop(self.patch_embed(images) + self.pos_embed)
        return x if keep is None else select_tokens(x, keep)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        return {"cls_token", "pos_embed"}


def _mix_heads(linear, maps):
    """``linear`` over the head axis of ``maps`` [H, B, N, N]."""
    mixed = paddle.matmul(linear.weight, maps.flatten(1), transpose_x=True) + linear.bias.unsqueeze(1)
    return mixed.reshape(maps.shape)
