# SPDX-License-Identifier: Apache-2.0
"""The pre-norm transformer block."""

from __future__ import annotations

import paddle
from paddle import nn

from .attention import Attention
from .drop import DropPath
from .mlp import Mlp
from .norm import LayerScale


class Block(nn.Layer):
    """x + attention(norm(x)), then x + mlp(norm(x)), each branch with LayerScale and stochastic depth.

    Args:
        dim: token width.
        num_heads: attention heads.
        mlp_ratio: hidden width of the MLP over ``dim``.
        qkv_bias: bias of the q, k, v projection.
        drop: dropout after the projections, in [0, 1).
        attn_drop: dropout on attention weights, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
        init_values: initial LayerScale factor; None leaves LayerScale out.
        epsilon: of the LayerNorms.
        mlp: builds the MLP from ``(dim, hidden_dim, drop=...)``.
    Shape: [B, N, dim] -> [B, N, dim], or [B, n, dim] when only the first ``n = num_queries`` tokens are wanted.
    """

    def __init__(
        self, dim, num_heads, mlp_ratio=4.0, qkv_bias=True, drop=0.0, attn_drop=0.0, drop_path=0.0,
        init_values=None, epsilon=1e-6, mlp=Mlp,
    ):  # fmt: skip
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.attn = Attention(dim, num_heads, qkv_bias, attn_drop, drop)
        self.ls1 = nn.Identity() if init_values is None else LayerScale(dim, init_values)
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = mlp(dim, int(dim * mlp_ratio), drop=drop)
        self.ls2 = nn.Identity() if init_values is None else LayerScale(dim, init_values)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor, num_queries: int | None = None) -> paddle.Tensor:
        update = self.drop_path(self.ls1(self.attn(self.norm1(x), num_queries)))
        x = (x if num_queries is None else x[:, :num_queries]) + update
        return x + self.drop_path(self.ls2(self.mlp(self.norm2(x))))
