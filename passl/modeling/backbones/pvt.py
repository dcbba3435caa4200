# SPDX-License-Identifier: Apache-2.0
"""PVT: a pyramid of transformer stages, where attention looks at a map made coarser by a convolution.

Paper: Pyramid Vision Transformer, ICCV 2021, https://arxiv.org/abs/2102.12122

State names are those of the official code.
"""

from __future__ import annotations

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import (
    DropPath,
    Linear,
    Mlp,
    as_map,
    as_tokens,
    linear_drop_path,
    pair,
    prepend,
    resize_pos_embed,
)
from passl.modeling.layers.attention import head_width
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.intermediates import block_indices
from passl.utils.registry import BACKBONES

from .base import StagedBackbone
from .swin import NormedPatchEmbed

_EMBED_EPSILON = 1e-5  # of the norms in the patch embeddings and after the reduction


class ReducedAttention(nn.Layer):
    """Attention of all tokens to the tokens of a coarser map (equations 1 to 4).

    Keys and values come from norm(conv(x)), where the convolution has kernel and stride ``sr_ratio``,
    or with ``pool`` (PVT v2) from gelu(norm(conv(pooled x))) with a convolution of one place.

    Args:
        dim: token width, divisible by ``num_heads``.
        num_heads: number of heads.
        sr_ratio: how many times coarser each side of the map becomes; 1 leaves it.
        qkv_bias: bias of the q and the k, v projections.
        attn_drop: dropout on the attention weights, in [0, 1).
        proj_drop: dropout on the output, in [0, 1).
        pool: side of the map after average pooling, whatever it was before; replaces ``sr_ratio``.
    Shape: x [B, N, dim] and its grid (h, w) with h * w = N -> [B, N, dim].
    """

    def __init__(self, dim, num_heads, sr_ratio=1, qkv_bias=True, attn_drop=0.0, proj_drop=0.0, pool=None):
        super().__init__()
        self.num_heads, self.head_dim, self.pool = num_heads, head_width(dim, num_heads), pool
        bias_attr = None if qkv_bias else False
        self.q = Linear(dim, dim, bias_attr=bias_attr)
        self.kv = Linear(dim, 2 * dim, bias_attr=bias_attr)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)
        self.reduces = pool is not None or sr_ratio > 1
        if self.reduces:
            side = 1 if pool is not None else sr_ratio
            self.sr = nn.Conv2D(dim, dim, side, stride=side)
            self.norm = nn.LayerNorm(dim, epsilon=_EMBED_EPSILON)

    def forward(self, x: paddle.Tensor, grid: tuple[int, int]) -> paddle.Tensor:
        num_tokens, dim = x.shape[1:]
        q = self.q(x).reshape([-1, num_tokens, self.num_heads, self.head_dim]).transpose([0, 2, 1, 3])
        source = self._reduce(x, grid) if self.reduces else x  # [B, M, D]
        kv = self.kv(source).reshape([-1, source.shape[1], 2, self.num_heads, self.head_dim])
        k, v = kv.transpose([2, 0, 3, 1, 4]).unbind(0)  # [B, H, M, d] each
        attn = F.softmax(paddle.matmul(q * self.head_dim**-0.5, k, transpose_y=True), axis=-1)  # [B, H, N, M]
        x = paddle.matmul(self.attn_drop(attn), v).transpose([0, 2, 1, 3])  # [B, N, H, d]
        return self.proj_drop(self.proj(x.reshape([-1, num_tokens, dim])))

    def _reduce(self, x, grid):
        maps = as_map(x, grid)
        if self.pool is None:
            return self.norm(as_tokens(self.sr(maps)))
        return F.gelu(self.norm(as_tokens(self.sr(F.adaptive_avg_pool2d(maps, self.pool)))))


class PVTBlock(nn.Layer):
    """x + attention(norm(x)), then x + mlp(norm(x)), with stochastic depth.

    Args:
        dim: token width.
        attn: takes tokens and their grid.
        mlp: takes tokens.
        drop_path: stochastic depth rate, in [0, 1).
        epsilon: of the LayerNorms.
    Shape: x [B, N, dim] and its grid -> [B, N, dim].
    """

    def __init__(self, dim, attn, mlp, drop_path, epsilon):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.attn = attn
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = mlp
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor, grid: tuple[int, int]) -> paddle.Tensor:
        x = x + self.drop_path(self.attn(self.norm1(x), grid))
        return x + self.drop_path(self._mlp(self.norm2(x), grid))

    def _mlp(self, x, grid):
        return self.mlp(x)


@BACKBONES.register()
class PVT(StagedBackbone):
    """Pyramid Vision Transformer, version 1: learned positions in every stage, a class token in the last.

    Args:
        img_size: height and width in pixels, one number or a pair, divisible by 32.
        in_chans: input channels.
        embed_dims: token width of each of the four stages.
        depths: number of blocks of each stage.
        num_heads: heads of each stage.
        mlp_ratios: hidden width of each stage's MLPs over its width.
        sr_ratios: how many times coarser each stage's keys and values are; the last must be 1.
        qkv_bias: bias of the q, k, v projections.
        drop_rate: dropout after position embedding, projections and MLPs, in [0, 1).
        attn_drop_rate: dropout on attention weights, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        epsilon: of the LayerNorms of blocks and output; those of embeddings and reductions have 1e-5.
    Shape: images [B, C, H, W] -> [B, embed_dims[3]].
    """

    def __init__(
        self, img_size=224, in_chans=3, embed_dims=(64, 128, 320, 512), depths=(2, 2, 2, 2),
        num_heads=(1, 2, 5, 8), mlp_ratios=(8, 8, 4, 4), sr_ratios=(8, 4, 2, 1), qkv_bias=True, drop_rate=0.0,
        attn_drop_rate=0.0, drop_path_rate=0.0, epsilon=1e-6,
    ):  # fmt: skip
        super().__init__()
        check_stages(
            embed_dims=embed_dims, depths=depths, num_heads=num_heads, mlp_ratios=mlp_ratios, sr_ratios=sr_ratios
        )
        if sr_ratios[-1] != 1:
            raise ValueError(f"the last stage has a class token, its sr_ratio must be 1, got {sr_ratios[-1]}")
        self.num_features, self.depths = embed_dims[-1], tuple(depths)
        rates = iter(linear_drop_path(drop_path_rate, sum(depths)))
        size, chans = pair(img_size), in_chans
        for i, (dim, depth) in enumerate(zip(embed_dims, depths)):
            embed = NormedPatchEmbed(size, 4 if i == 0 else 2, chans, dim, _EMBED_EPSILON)
            num_positions = embed.num_patches + (i == 3)
            blocks = [
                PVTBlock(
                    dim,
                    ReducedAttention(dim, num_heads[i], sr_ratios[i], qkv_bias, attn_drop_rate, drop_rate),
                    Mlp(dim, int(dim * mlp_ratios[i]), drop=drop_rate),
                    next(rates),
                    epsilon,
                )
                for _ in range(depth)
            ]
            setattr(self, f"patch_embed{i + 1}", embed)
            setattr(self, f"pos_embed{i + 1}", self.create_parameter([1, num_positions, dim]))
            setattr(self, f"block{i + 1}", nn.LayerList(blocks))
            size, chans = embed.grid_size, dim
        self.pos_drop = nn.Dropout(drop_rate)
        self.cls_token = self.create_parameter([1, 1, self.num_features])
        self.norm = nn.LayerNorm(self.num_features, epsilon=epsilon)
        self._init_weights()

    def _init_weights(self):
        self.apply(init_vit)
        self.apply(init_torch_conv)
        for table in (self.cls_token, *(getattr(self, f"pos_embed{i}") for i in (1, 2, 3, 4))):
            trunc_normal_(table)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The normed class token, [B, D]."""
        return self._run(images, [3])[3][:, 0]

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The maps after the stages ``indices`` (0 to 3), the last one normed; stages after the largest are not run.

        Shape: [B, C, h, w] for each index, in the order asked for; h and w halve from stage to stage.
        """
        indices = block_indices(indices, 4)
        tokens = self._run(images, indices)
        patches = {i: x[:, 1:] if i == 3 else x for i, x in tokens.items()}
        return [as_map(patches[i], getattr(self, f"patch_embed{i + 1}").grid_size) for i in indices]

    def _run(self, images, indices):
        """Tokens after the stages ``indices``, by stage; the last stage has the class token in front."""
        x, outputs = images, {}
        for i in range(max(indices) + 1):
            embed = getattr(self, f"patch_embed{i + 1}")
            x = embed(x)
            if i == 3:
                x = prepend(self.cls_token, x)
            x = self.pos_drop(x + getattr(self, f"pos_embed{i + 1}"))
            for block in getattr(self, f"block{i + 1}"):
                x = block(x, embed.grid_size)
            if i in indices:
                outputs[i] = self.norm(x) if i == 3 else x
            if i < 3:
                x = as_map(x, embed.grid_size)
        return outputs

    def adapt_weights(self, arrays):
        """Resample the four position tables to this model's grids, bilinearly as the official code does."""
        for i in (1, 2, 3, 4):
            name, grid = f"pos_embed{i}", getattr(self, f"patch_embed{i}").grid_size
            table, prefix = arrays.get(name), int(i == 4)
            if table is None or table.shape[1] == grid[0] * grid[1] + prefix:
                continue
            side = math.isqrt(table.shape[1] - prefix)
            if side * side == table.shape[1] - prefix:
                resized = resize_pos_embed(table, (side, side), grid, prefix, antialias=False, mode="bilinear")
                arrays[name] = resized.numpy()
        return arrays

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: i + 1 for block i, counted through all stages; the norm is last.

        Embeddings and positions of a stage belong to the block before it, the first to 0.
        """
        part, _, rest = name.partition(".")
        if part == "norm":
            return self.num_layers + 1
        stage = 4 if part == "cls_token" else int(part[-1])
        return self._depth(stage - 1, rest.split(".")[0] if part.startswith("block") else None)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis.

        Positions decay, as in the official code.
        """
        return {"cls_token"}


def check_stages(**lists) -> None:
    """Raise ValueError unless each argument has one entry for each of four stages."""
    for name, values in lists.items():
        if len(values) != 4:
            raise ValueError(f"{name} must have one entry for each of the 4 stages, got {list(values)}")
