# SPDX-License-Identifier: Apache-2.0
"""Transformer blocks whose attentions, and then whose MLPs, work side by side.

Paper: Three things everyone should know about Vision Transformers, ECCV 2022, https://arxiv.org/abs/2203.09795, eq. 3

State names are timm's.
"""

from __future__ import annotations

import paddle
from paddle import nn

from .block import Block


class Branch(nn.Layer):
    """layer(norm(x)) with LayerScale and stochastic depth, to be added to x.

    Args:
        name: of the layer in the state, ``attn`` or ``mlp``.
        norm, layer, ls, drop_path: the steps.
    Shape: [B, N, dim], unchanged; further arguments of ``forward`` are the layer's.
    """

    def __init__(self, name, norm, layer, ls, drop_path):
        super().__init__()
        self.name = name
        self.norm = norm
        self.add_sublayer(name, layer)
        self.ls = ls
        self.drop_path = drop_path

    def forward(self, x: paddle.Tensor, *arguments) -> paddle.Tensor:
        layer = getattr(self, self.name)
        return self.drop_path(self.ls(layer(self.norm(x), *arguments)))


class ParallelBlock(nn.Layer):
    """The parts of n blocks, wired as x + the sum of their attention branches of x, then the same with their MLPs.

    Each branch has its own norm and LayerScale, and is dropped by itself.

    Args:
        num_branches: n.
        arguments, options: those of :class:`Block`.
    Shape: [B, N, dim] -> [B, N, dim], or [B, n, dim] when only the first ``n = num_queries`` tokens are wanted.
    """

    def __init__(self, num_branches, *arguments, **options):
        super().__init__()
        blocks = [Block(*arguments, **options) for _ in range(num_branches)]
        self.attns = nn.LayerList([Branch("attn", b.norm1, b.attn, b.ls1, b.drop_path) for b in blocks])
        self.ffns = nn.LayerList([Branch("mlp", b.norm2, b.mlp, b.ls2, b.drop_path) for b in blocks])

    def forward(self, x: paddle.Tensor, num_queries: int | None = None) -> paddle.Tensor:
        attended = [attn(x, num_queries) for attn in self.attns]
        x = sum(attended, start=x if num_queries is None else x[:, :num_queries])
        return sum([ffn(x) for ffn in self.ffns], start=x)
