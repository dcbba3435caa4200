# SPDX-License-Identifier: Apache-2.0
"""T2T-ViT: overlapping windows of tokens are joined to fewer tokens, twice, before a narrow and deep transformer.

Paper: Tokens-to-Token ViT, ICCV 2021, https://arxiv.org/abs/2101.11986
Performer: Rethinking Attention with Performers, ICLR 2021, https://arxiv.org/abs/2009.14794

State names are those of the official code.
"""

from __future__ import annotations

import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Assign, Orthogonal

from passl.modeling.layers import Block, Linear, Mlp, as_map, check_image_size, linear_drop_path, pair
from passl.utils.registry import BACKBONES

from .class_token_vit import ClassTokenViT

_PATCH_SIZE = 16  # the three soft splits together: strides 4, 2 and 2
_EPSILON = 1e-5  # of the LayerNorms in the tokens-to-token module


class TokenPerformer(nn.Layer):
    """Attention in linear time by random features, then an MLP, from wide to narrow tokens.

    With phi(x) = exp(W x - |x|^2 / 2) / sqrt(m), the output at t is phi(q_t) sum_s phi(k_s)^T v_s /
    (phi(q_t) sum_s phi(k_s)).  The shortcut starts from the values, as tokens change their width.

    Args:
        in_dim: width of the tokens that come in.
        dim: width of those that leave.
        kernel_ratio: random features m over ``dim``.
    Shape: [B, N, in_dim] -> [B, N, dim].
    """

    def __init__(self, in_dim, dim, kernel_ratio=0.5):
        super().__init__()
        self.dim, self.num_features = dim, int(dim * kernel_ratio)
        self.w = self.create_parameter(
            [self.num_features, dim], default_initializer=Orthogonal(math.sqrt(self.num_features))
        )
        self.w.stop_gradient = True  # random features are drawn once
        self.kqv = Linear(in_dim, 3 * dim)
        self.proj = Linear(dim, dim)
        self.norm1 = nn.LayerNorm(in_dim, epsilon=_EPSILON)
        self.norm2 = nn.LayerNorm(dim, epsilon=_EPSILON)
        self.mlp = nn.Sequential(Linear(dim, dim), nn.GELU(), Linear(dim, dim))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        k, q, v = self.kqv(self.norm1(x)).chunk(3, axis=-1)  # in this order
        x = v + self.proj(self._attend(q, k, v))
        return x + self.mlp(self.norm2(x))

    def _attend(self, q, k, v):
        if v.dtype != paddle.float32:  # mixed precision, but exponentials need float32
            with paddle.amp.auto_cast(enable=False):
                return self._attend(*(part.astype("float32") for part in (q, k, v))).astype(v.dtype)
        q, k = self._features(q), self._features(k)  # [B, N, m]
        total = paddle.matmul(q, k.sum(1, keepdim=True), transpose_y=True)  # [B, N, 1]
        values = paddle.matmul(k, v, transpose_x=True)  # [B, m, dim]
        return paddle.matmul(q, values) / (total + 1e-8)

    def _features(self, x):
        exponent = paddle.matmul(x, self.w.astype(x.dtype), transpose_y=True) - x.square().sum(-1, keepdim=True) / 2
        return paddle.exp(exponent) / math.sqrt(self.num_features)


class TokenAttention(nn.Layer):
    """Attention with one head from wide to narrow tokens, and the values as shortcut.

    As in the official code the logits are divided by the root of the width that comes in.

    Args:
        in_dim: width of the tokens that come in.
        dim: width of those that leave.
    Shape: [B, N, in_dim] -> [B, N, dim].
    """

    def __init__(self, in_dim, dim):
        super().__init__()
        self.scale = in_dim**-0.5
        self.qkv = Linear(in_dim, 3 * dim, bias_attr=False)
        self.proj = Linear(dim, dim)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        q, k, v = self.qkv(x).chunk(3, axis=-1)
        attn = F.softmax(paddle.matmul(q * self.scale, k, transpose_y=True), axis=-1)  # [B, N, N]
        return v + self.proj(paddle.matmul(attn, v))


class TokenTransformer(nn.Layer):
    """Full attention, then an MLP, from wide to narrow tokens.

    Args: those of :class:`TokenAttention`.
    Shape: [B, N, in_dim] -> [B, N, dim].
    """

    def __init__(self, in_dim, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(in_dim, epsilon=_EPSILON)
        self.attn = TokenAttention(in_dim, dim)
        self.norm2 = nn.LayerNorm(dim, epsilon=_EPSILON)
        self.mlp = Mlp(dim, dim)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


_TOKENS = {"performer": TokenPerformer, "transformer": TokenTransformer}


class T2TModule(nn.Layer):
    """Soft splits of 7x7, 3x3 and 3x3 places with strides 4, 2 and 2, and attention between them (section 3.1).

    Args:
        img_size: height and width in pixels, one number or a pair, divisible by 16.
        tokens: kind of attention, "performer" or "transformer".
        in_chans: input channels.
        embed_dim: token width D that leaves.
        token_dim: token width inside.
    Shape: [B, C, H, W] -> [B, N, D] with N = H / 16 * W / 16, row by row.
    """

    def __init__(self, img_size, tokens, in_chans, embed_dim, token_dim):
        super().__init__()
        if tokens not in _TOKENS:
            raise ValueError(f"tokens must be one of {', '.join(map(repr, _TOKENS))}, got {tokens!r}")
        self.img_size = pair(img_size)
        if any(side % _PATCH_SIZE for side in self.img_size):
            raise ValueError(f"img_size {self.img_size} must be divisible by patch_size {_PATCH_SIZE}")
        self.grid_size = (self.img_size[0] // _PATCH_SIZE, self.img_size[1] // _PATCH_SIZE)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        self.attention1 = _TOKENS[tokens](in_chans * 7 * 7, token_dim)
        self.attention2 = _TOKENS[tokens](token_dim * 3 * 3, token_dim)
        self.project = Linear(token_dim * 3 * 3, embed_dim)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        check_image_size(images, self.img_size)
        rows, columns = self.grid_size
        x = self.attention1(_soft_split(images, 7, 4, 2))  # [B, 16 N, token_dim]
        x = self.attention2(_soft_split(as_map(x, (4 * rows, 4 * columns)), 3, 2, 1))  # [B, 4 N, token_dim]
        return self.project(_soft_split(as_map(x, (2 * rows, 2 * columns)), 3, 2, 1))


@BACKBONES.register()
class T2TViT(ClassTokenViT):
    """Tokens-to-token module, class token, fixed sinusoid positions and pre-norm blocks.

    Args:
        img_size: height and width in pixels, one number or a pair, divisible by 16.
        tokens: attention in the tokens-to-token module, "performer" or "transformer" (the models called t).
        in_chans, embed_dim, depth, num_heads, mlp_ratio, qkv_bias: see :class:`ViT`.
        token_dim: token width inside the tokens-to-token module.
        drop_rate, attn_drop_rate, epsilon: see :class:`ViT`.
        drop_path_rate: stochastic depth in [0, 1) of the last block, rising linearly from 0.
    Shape: images [B, C, H, W] -> [B, embed_dim].
    """

    def __init__(
        self, img_size=224, tokens="performer", in_chans=3, embed_dim=384, depth=14, num_heads=6, mlp_ratio=3.0,
        qkv_bias=False, token_dim=64, drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0, epsilon=1e-5,
    ):  # fmt: skip
        super().__init__()
        self.tokens_to_token = T2TModule(img_size, tokens, in_chans, embed_dim, token_dim)
        positions = sinusoid_1d(1 + self.patch_embed.num_patches, embed_dim)
        self.pos_embed = self.create_parameter([1, *positions.shape], default_initializer=Assign(positions[None]))
        self.pos_embed.stop_gradient = True
        sizes = (embed_dim, num_heads, mlp_ratio, qkv_bias, drop_rate, attn_drop_rate)
        self.blocks = nn.LayerList(
            [Block(*sizes, rate, epsilon=epsilon) for rate in linear_drop_path(drop_path_rate, depth)]
        )
        self._finish(embed_dim, drop_rate, epsilon)

    @property
    def patch_embed(self) -> T2TModule:
        """The tokens-to-token module under the name that it has in other backbones."""
        return self.tokens_to_token


def sinusoid_1d(length: int, dim: int) -> np.ndarray:
    """The table of "Attention Is All You Need": sine and cosine of each frequency side by side, [length, dim]."""
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, -1)[:, :dim].astype("float32")


def _soft_split(maps, kernel_size, stride, padding):
    """Overlapping windows as tokens: [B, C, H, W] -> [B, N, C * kernel_size^2]."""
    return F.unfold(maps, kernel_size, stride, padding).transpose([0, 2, 1])
