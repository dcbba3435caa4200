# SPDX-License-Identifier: Apache-2.0
"""PVT v2: overlapping patches and convolutions within the MLPs take the place of position embeddings.

Paper: PVT v2: Improved Baselines with Pyramid Vision Transformer, 2021, https://arxiv.org/abs/2106.13797

State names are timm's.
"""

from __future__ import annotations

import math

import paddle
from paddle import nn
from paddle.nn.initializer import Normal

from passl.modeling.layers import Linear, as_map, as_tokens, linear_drop_path
from passl.modeling.layers.init import init_vit, zeros_
from passl.utils.registry import BACKBONES

from .base import StagedBackbone
from .pvt import PVTBlock, ReducedAttention, check_stages


class OverlappingPatchEmbed(nn.Layer):
    """A convolution whose kernel is wider than its stride, then a LayerNorm.

    Args:
        in_chans: channels of the input.
        dim: token width.
        kernel, stride: of the convolution.
    Shape: [B, in_chans, H, W] -> tokens [B, N, dim] and their grid (h, w), sides rounded up.
    """

    def __init__(self, in_chans, dim, kernel, stride):
        super().__init__()
        self.proj = nn.Conv2D(in_chans, dim, kernel, stride=stride, padding=kernel // 2)
        self.norm = nn.LayerNorm(dim, epsilon=1e-5)

    def forward(self, x: paddle.Tensor) -> tuple[paddle.Tensor, tuple[int, int]]:
        x = self.proj(x)
        return self.norm(as_tokens(x)), tuple(x.shape[-2:])


class ConvMlp(nn.Layer):
    """An MLP in which a depthwise 3x3 convolution stands before the activation; it tells places apart.

    Args:
        dim: input and output width.
        hidden_dim: inner width.
        drop: dropout probability in [0, 1).
        relu: a ReLU before the convolution (models with linear attention).
    Shape: x [B, N, dim] and its grid -> [B, N, dim].
    """

    def __init__(self, dim, hidden_dim, drop=0.0, relu=False):
        super().__init__()
        self.fc1 = Linear(dim, hidden_dim)
        self.relu = nn.ReLU() if relu else nn.Identity()
        self.dwconv = nn.Conv2D(hidden_dim, hidden_dim, 3, padding=1, groups=hidden_dim)
        self.act = nn.GELU()
        self.fc2 = Linear(hidden_dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: paddle.Tensor, grid: tuple[int, int]) -> paddle.Tensor:
        x = as_tokens(self.dwconv(as_map(self.relu(self.fc1(x)), grid)))
        return self.drop(self.fc2(self.drop(self.act(x))))


class PVTv2Block(PVTBlock):
    """The block of :class:`PVTBlock` with a :class:`ConvMlp`, which also takes the grid."""

    def _mlp(self, x, grid):
        return self.mlp(x, grid)


class PVTv2Stage(nn.Layer):
    """Patches, except in the first stage, where the backbone makes them; then blocks and a norm.

    Args:
        downsample: map to tokens and their grid; None in the first stage, which is given them.
        blocks: layers that take tokens and their grid.
        dim: width of the stage.
        epsilon: of the norm.
    Shape: a map, or tokens and their grid -> map [B, dim, h, w].
    """

    def __init__(self, downsample, blocks, dim, epsilon):
        super().__init__()
        self.downsample = downsample
        self.blocks = nn.LayerList(blocks)
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)

    def forward(self, x):
        x, grid = x if self.downsample is None else self.downsample(x)
        for block in self.blocks:
            x = block(x, grid)
        return as_map(self.norm(x), grid)


@BACKBONES.register()
class PVTv2(StagedBackbone):
    """Pyramid Vision Transformer, version 2.

    Args:
        in_chans: input channels.
        embed_dims: token width of each of the four stages.
        depths: number of blocks of each stage.
        num_heads: heads of each stage.
        mlp_ratios: hidden width of each stage's MLPs over its width.
        sr_ratios: how many times coarser each stage's keys and values are.
        linear: attend to 7x7 averages in all stages, so that its cost grows linearly with the image (PVT v2-Li).
        qkv_bias: bias of the q, k, v projections.
        drop_rate: dropout after projections and MLPs, in [0, 1).
        attn_drop_rate: dropout on attention weights, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        epsilon: of the LayerNorms of blocks and stages; those of embeddings and reductions have 1e-5.
    Shape: images [B, C, H, W] of any size -> [B, embed_dims[3]]; the last map has a 32nd of H and W.
    """

    def __init__(
        self, in_chans=3, embed_dims=(64, 128, 320, 512), depths=(3, 4, 6, 3), num_heads=(1, 2, 5, 8),
        mlp_ratios=(8, 8, 4, 4), sr_ratios=(8, 4, 2, 1), linear=False, qkv_bias=True, drop_rate=0.0,
        attn_drop_rate=0.0, drop_path_rate=0.0, epsilon=1e-6,
    ):  # fmt: skip
        super().__init__()
        check_stages(
            embed_dims=embed_dims, depths=depths, num_heads=num_heads, mlp_ratios=mlp_ratios, sr_ratios=sr_ratios
        )
        self.num_features, self.depths = embed_dims[-1], tuple(depths)
        self.patch_embed = OverlappingPatchEmbed(in_chans, embed_dims[0], 7, 4)
        rates = iter(linear_drop_path(drop_path_rate, sum(depths)))
        pool = 7 if linear else None
        self.stages = nn.LayerList()
        for i, (dim, depth) in enumerate(zip(embed_dims, depths)):
            blocks = [
                PVTv2Block(
                    dim,
                    ReducedAttention(dim, num_heads[i], sr_ratios[i], qkv_bias, attn_drop_rate, drop_rate, pool),
                    ConvMlp(dim, int(dim * mlp_ratios[i]), drop_rate, relu=linear),
                    next(rates),
                    epsilon,
                )
                for _ in range(depth)
            ]
            downsample = OverlappingPatchEmbed(embed_dims[i - 1], dim, 3, 2) if i else None
            self.stages.append(PVTv2Stage(downsample, blocks, dim, epsilon))
        self.apply(_init_weights)

    def _enter(self, images):
        return self.patch_embed(images)

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the first patches, i + 1 for block i, counted through the stages.

        Patches and norms between stages belong to the block before them, the last norm to ``num_layers + 1``.
        """
        part, _, rest = name.partition(".")
        if part == "patch_embed":
            return 0
        stage, kind, place = rest.split(".")[:3]
        if kind == "norm":
            return self.num_layers + 1 if stage == "3" else self._depth(int(stage) + 1)
        return self._depth(stage, place if kind == "blocks" else None)


def _init_weights(layer):
    init_vit(layer)
    if isinstance(layer, nn.Conv2D):
        out_chans, _, height, width = layer.weight.shape
        fan_out = out_chans * height * width // layer._groups
        Normal(0.0, math.sqrt(2.0 / fan_out))(layer.weight)
        zeros_(layer.bias)
