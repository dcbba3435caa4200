# SPDX-License-Identifier: Apache-2.0
"""Multi-head attention of all tokens, and of a class token alone."""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn

from .linear import Linear


class Attention(nn.Layer):
    """softmax(q k^T / sqrt(d)) v over ``num_heads`` heads, then an output projection.

    Paper: Attention Is All You Need, NeurIPS 2017, https://arxiv.org/abs/1706.03762, eq. 1

    Args:
        dim: token width, divisible by ``num_heads``.
        num_heads: number of heads.
        qkv_bias: whether the joint q, k, v projection has a bias.
        attn_drop: dropout on the attention weights, in [0, 1).
        proj_drop: dropout on the output, in [0, 1).
    Shape: [B, N, D] -> [B, N, D], or [B, n, D] when only the first ``n = num_queries`` tokens ask.
    """

    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_width(dim, num_heads)
        self.scale = self.head_dim**-0.5
        self.qkv = Linear(dim, 3 * dim, bias_attr=None if qkv_bias else False)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x: paddle.Tensor, num_queries: int | None = None) -> paddle.Tensor:
        qkv = self.qkv(x).reshape([-1, x.shape[1], 3, self.num_heads, self.head_dim])
        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)  # [B, H, N, d] each
        if num_queries is not None:
            q = q[:, :, :num_queries]
        attn = F.softmax(paddle.matmul(q * self.scale, k, transpose_y=True), axis=-1)  # [B, H, n, N]
        x = paddle.matmul(self.attn_drop(attn), v)  # [B, H, n, d]
        x = x.transpose([0, 2, 1, 3]).flatten(2)  # [B, n, D]
        return self.proj_drop(self.proj(x))


class ClassAttention(nn.Layer):
    """Attention with one query, the class token at position 0, over all tokens.

    Paper: Going Deeper with Image Transformers, ICCV 2021, https://arxiv.org/abs/2103.17239, section 3

    Args: as :class:`Attention`; ``qkv_bias`` holds for the three separate projections.
    Shape: [B, 1 + N, D] -> [B, 1, D].
    """

    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_width(dim, num_heads)
        bias_attr = None if qkv_bias else False
        self.q = Linear(dim, dim, bias_attr=bias_attr)
        self.k = Linear(dim, dim, bias_attr=bias_attr)
        self.v = Linear(dim, dim, bias_attr=bias_attr)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        num_tokens, dim = tokens.shape[1:]
        q = self.q(tokens[:, :1]).reshape([-1, 1, self.num_heads, self.head_dim]).transpose([0, 2, 1, 3])
        k = self.k(tokens).reshape([-1, num_tokens, self.num_heads, self.head_dim]).transpose([0, 2, 1, 3])
        v = self.v(tokens).reshape([-1, num_tokens, self.num_heads, self.head_dim]).transpose([0, 2, 1, 3])
        attn = paddle.matmul(q * self.head_dim**-0.5, k, transpose_y=True)  # [B, H, 1, 1 + N]
        x = paddle.matmul(self.attn_drop(F.softmax(attn, axis=-1)), v)  # [B, H, 1, d]
        return self.proj_drop(self.proj(x.transpose([0, 2, 1, 3]).reshape([-1, 1, dim])))


def head_width(dim: int, num_heads: int) -> int:
    """Width of each head; ValueError when the heads do not divide the tokens' width."""
    if dim % num_heads:
        raise ValueError(f"a width of {dim} must be divisible by its num_heads (={num_heads})")
    return dim // num_heads
