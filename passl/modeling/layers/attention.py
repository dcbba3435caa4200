# SPDX-License-Identifier: Apache-2.0
"""Multi-head self-attention with one product for queries, keys and values."""

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
        if dim % num_heads:
            raise ValueError(f"embed_dim (={dim}) must be divisible by num_heads (={num_heads})")
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
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
