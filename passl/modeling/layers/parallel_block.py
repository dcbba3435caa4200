# SPDX-License-Identifier: Apache-2.0
"""Transformer blocks whose attentions, and then whose MLPs, work side by side.

Paper: Three things everyone should know about Vision Transformers, ECCV 2022, https://arxiv.org/abs/2203.09795, eq. 3

State names are timm's.
"""

from __future__ import annotations

import paddle
from paddle import nn

from .attention import Attention
from .drop import DropPath
from .mlp import Mlp
from .norm import LayerScale


class AttentionBranch(nn.Layer):
    """attention(norm(x)) with LayerScale and stochastic depth, to be added to x.

    Args: those of :class:`ParallelBlock`.
    Shape: [B, N, dim] -> [B, N, dim], or [B, n, dim] for the first ``n = num_queries`` tokens.
    """

    def __init__(self, dim, num_heads, qkv_bias, drop, attn_drop, drop_path, init_values, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)
        self.attn = Attention(dim, num_heads, qkv_bias, attn_drop, drop)
        self.ls = nn.Identity() if init_values is None else LayerScale(dim, init_values)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor, num_queries: int | None = None) -> paddle.Tensor:
        return self.drop_path(self.ls(self.attn(self.norm(x), num_queries)))


class MlpBranch(nn.Layer):
    """mlp(norm(x)) with LayerScale and stochastic depth, to be added to x.

    Args: those of :class:`ParallelBlock`.
    Shape: [B, N, dim], unchanged.
    """

    def __init__(self, dim, mlp_ratio, drop, drop_path, init_values, epsilon, mlp):
        super().__init__()
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = mlp(dim, int(dim * mlp_ratio), drop=drop)
        self.ls = nn.Identity() if init_values is None else LayerScale(dim, init_values)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.drop_path(self.ls(self.mlp(self.norm(x))))


class ParallelBlock(nn.Layer):
    """x + the sum of n attention branches of x, then x + the sum of n MLP branches of x.

    Each branch has its own norm and LayerScale, and is dropped by itself.  n = 1 is :class:`Block`.

    Args:
        num_branches: n.
        dim: token width.
        num_heads: heads of each attention.
        mlp_ratio: hidden width of each MLP over ``dim``.
        qkv_bias: bias of the q, k, v projections.
        drop: dropout after the projections, in [0, 1).
        attn_drop: dropout on attention weights, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
        init_values: initial LayerScale factor; None leaves LayerScale out.
        epsilon: of the LayerNorms.
        mlp: builds an MLP from ``(dim, hidden_dim, drop=...)``.
    Shape: [B, N, dim] -> [B, N, dim], or [B, n, dim] when only the first ``n = num_queries`` tokens are wanted.
    """

    def __init__(
        self,
        num_branches,
        dim,
        num_heads,
        mlp_ratio=4.0,
        qkv_bias=True,
        drop=0.0,
        attn_drop=0.0,
        drop_path=0.0,
        init_values=None,
        epsilon=1e-6,
        mlp=Mlp,
    ):
        super().__init__()

        def attention():
            return AttentionBranch(dim, num_heads, qkv_bias, drop, attn_drop, drop_path, init_values, epsilon)

        def perceptron():
            return MlpBranch(dim, mlp_ratio, drop, drop_path, init_values, epsilon, mlp)

        self.attns = nn.LayerList([attention() for _ in range(num_branches)])
        self.ffns = nn.LayerList([perceptron() for _ in range(num_branches)])

    def forward(self, x: paddle.Tensor, num_queries: int | None = None) -> paddle.Tensor:
        attended = [attn(x, num_queries) for attn in self.attns]
        x = sum(attended, start=x if num_queries is None else x[:, :num_queries])
        return sum([ffn(x) for ffn in self.ffns], start=x)
