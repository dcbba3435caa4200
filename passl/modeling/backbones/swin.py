# SPDX-License-Identifier: Apache-2.0
"""Swin: attention within windows that are shifted in every other block, on maps that shrink from stage to stage.

Paper: Swin Transformer, ICCV 2021, https://arxiv.org/abs/2103.14030
Windows of other sizes (S3): Searching the Search Space of Vision Transformer, NeurIPS 2021,
https://arxiv.org/abs/2111.14725
Mask token: SimMIM, CVPR 2022, https://arxiv.org/abs/2111.09886

State names are timm's, where the merging of patches begins a stage; in the official code it ends the one before.
"""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers import DropPath, Linear, Mlp, PatchEmbed, Windows, linear_drop_path, replace_masked
from passl.modeling.layers.attention import head_width
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.intermediates import block_indices, outputs_of
from passl.modeling.layers.relative_position import (
    biased_attention,
    look_up_bias,
    relative_position_index,
    split_heads,
)
from passl.utils.registry import BACKBONES

from .base import StagedBackbone


class WindowAttention(nn.Layer):
    """softmax(q k^T / sqrt(d) + B) v within a window, B learned for each offset and head (eq. 4).

    Args:
        dim: width, divisible by ``num_heads``.
        window_size: rows and columns of the window.
        num_heads: number of heads.
        qkv_bias: whether the joint q, k, v projection has a bias.
        attn_drop: dropout on the attention weights, in [0, 1).
        proj_drop: dropout on the output, in [0, 1).
    Shape: windows [W, N, dim], mask [windows of an image, N, N] or None -> [W, N, dim].
    """

    def __init__(self, dim, window_size, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.window_size, self.num_heads = tuple(window_size), num_heads
        self.scale = head_width(dim, num_heads) ** -0.5
        height, width = self.window_size
        self.relative_position_bias_table = self.create_parameter([(2 * height - 1) * (2 * width - 1), num_heads])
        index = paddle.to_tensor(relative_position_index(self.window_size))
        self.register_buffer("relative_position_index", index, persistable=False)
        self.qkv = Linear(dim, 3 * dim, bias_attr=None if qkv_bias else False)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)
        trunc_normal_(self.relative_position_bias_table)

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor | None = None) -> paddle.Tensor:
        q, k, v = split_heads(self.qkv(x), self.num_heads)
        logits = paddle.matmul(q * self.scale, k, transpose_y=True)  # [W, H, N, N]
        bias = look_up_bias(self.relative_position_bias_table, self.relative_position_index)
        return self.proj_drop(self.proj(biased_attention(logits, v, bias, mask, self.attn_drop)))


class SwinBlock(nn.Layer):
    """x + windows(norm(x)), then x + mlp(norm(x)), with stochastic depth (eq. 3).

    Args:
        dim: width.
        grid_size: rows and columns of the map.
        window_size: rows and columns of a window; cut to the map.
        shift: whether the windows are shifted.
        num_heads, qkv_bias, attn_drop: see :class:`WindowAttention`.
        mlp_ratio: hidden width of the MLP over ``dim``.
        drop: dropout after the projections, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
        epsilon: of the LayerNorms.
        options: what the attention takes besides.
    Shape: [B, h, w, dim] -> [B, h, w, dim].
    """

    attention = WindowAttention

    def __init__(
        self, dim, grid_size, window_size, shift, num_heads, mlp_ratio=4.0, qkv_bias=True, drop=0.0,
        attn_drop=0.0, drop_path=0.0, epsilon=1e-5, **options,
    ):  # fmt: skip
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.windows = Windows(grid_size, window_size, shift)
        self.attn = self.attention(dim, self.windows.window_size, num_heads, qkv_bias, attn_drop, drop, **options)
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop=drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self.drop_path(self.windows(self.norm1(x), self.attn))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class PatchMerging(nn.Layer):
    """Joins 2 x 2 neighbours, norms and projects them: half the side, twice the width.

    Args:
        dim: width before.
        epsilon: of the LayerNorm.
    Shape: [B, h, w, dim] -> [B, h / 2, w / 2, 2 * dim].
    """

    norm_ratio = 4  # width of the norm over ``dim``

    def __init__(self, dim, epsilon=1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(self.norm_ratio * dim, epsilon=epsilon)
        self.reduction = Linear(4 * dim, 2 * dim, bias_attr=False)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.reduction(self.norm(join_neighbours(x)))


def join_neighbours(x: paddle.Tensor) -> paddle.Tensor:
    """Places (0, 0), (1, 0), (0, 1), (1, 1) of each 2 x 2 cell, as (row, column), behind each other.

    Shape: [B, h, w, C] -> [B, h / 2, w / 2, 4 * C].
    """
    rows, columns, dim = x.shape[1:]
    x = x.reshape([-1, rows // 2, 2, columns // 2, 2, dim])
    return x.transpose([0, 1, 3, 4, 2, 5]).reshape([-1, rows // 2, columns // 2, 4 * dim])


class NormedPatchEmbed(PatchEmbed):
    """Patch tokens with a LayerNorm behind the projection."""

    def __init__(self, img_size, patch_size, in_chans, embed_dim, epsilon):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        self.norm = nn.LayerNorm(embed_dim, epsilon=epsilon)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        return self.norm(super().forward(images))


class SwinStage(nn.Layer):
    """Merging of patches, except in the first stage, then blocks on one map size."""

    def __init__(self, downsample, blocks):
        super().__init__()
        self.downsample = downsample
        self.blocks = nn.LayerList(blocks)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = self.downsample(x)
        for block in self.blocks:
            x = block(x)
        return x


class SwinTrunk(StagedBackbone):
    """What Swin and Swin v2 share: patches, stages, the mean over the last map.

    Args:
        patch_embed: images to tokens.
        depths: number of blocks of each stage.
        num_heads: heads of each stage.
        window_size: side of the windows, one for all stages or one for each.
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        epsilon: of the LayerNorms.
        use_mask_token: learn a token that stands for masked patches.
        make_block: (dim, grid_size, window_size, shift, num_heads, drop_path, stage) -> block.
        make_merging: (dim) -> the layer that halves a map and doubles its width.
    """

    def __init__(
        self, patch_embed, depths, num_heads, window_size, drop_path_rate, epsilon, use_mask_token, make_block,
        make_merging,
    ):  # fmt: skip
        super().__init__()
        windows = _per_stage(window_size, depths, num_heads)
        self.depths = tuple(depths)
        self.patch_embed = patch_embed
        dim, grid = patch_embed.proj.weight.shape[0], patch_embed.grid_size
        self.mask_token = self.create_parameter([1, 1, dim]) if use_mask_token else None
        rates = iter(linear_drop_path(drop_path_rate, sum(depths)))
        stages = []
        for stage, (depth, heads, window) in enumerate(zip(depths, num_heads, windows)):
            merging = make_merging(dim) if stage else nn.Identity()
            if stage:
                _check_even(grid, patch_embed.img_size, stage)
                dim, grid = 2 * dim, (grid[0] // 2, grid[1] // 2)
            blocks = [make_block(dim, grid, window, i % 2 == 1, heads, next(rates), stage) for i in range(depth)]
            stages.append(SwinStage(merging, blocks))
        self.layers = nn.LayerList(stages)
        self.num_features = dim
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)
        self.apply(init_vit)
        init_torch_conv(self.patch_embed.proj)
        if use_mask_token:
            trunc_normal_(self.mask_token)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The mean over all places of the normed last map, [B, D]."""
        return self._run(images, [len(self.layers) - 1])[0].mean([1, 2])

    def forward_features(self, images: paddle.Tensor, mask: paddle.Tensor | None = None) -> paddle.Tensor:
        """The normed map of the last stage, [B, D, h, w].

        Args:
            mask: [B, N] bool, true for the patches of the patch embedding that the mask token replaces.
        """
        return self._run(images, [len(self.layers) - 1], mask)[0].transpose([0, 3, 1, 2])

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The maps after the stages ``indices``, the last one normed; stages after the largest are not run.

        Shape: [B, C, h, w] for each index, in the order asked for; C doubles and h, w halve from stage to stage.
        """
        maps = self._run(images, block_indices(indices, len(self.layers)))
        return [x.transpose([0, 3, 1, 2]) for x in maps]

    def _run(self, images, indices, mask=None):
        """Maps [B, h, w, C] after the stages ``indices``."""
        x = self.patch_embed(images)  # [B, N, C]
        if mask is not None:
            x = replace_masked(x, mask, self.mask_token)
        x = x.reshape([-1, *self.patch_embed.grid_size, x.shape[-1]])  # [B, h, w, C]
        last = len(self.layers) - 1
        return [self.norm(x) if i == last else x for i, x in zip(indices, outputs_of(self.layers, x, indices))]

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the patches, i + 1 for block i, counted through the stages.

        Merging belongs to the block before it, the norm to ``num_layers + 1``.
        """
        part, _, rest = name.partition(".")
        if part != "layers":
            return self.num_layers + 1 if part == "norm" else 0
        stage, kind, block = rest.split(".")[:3]
        return self._depth(stage, block if kind == "blocks" else None)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        names = {name for name, _ in self.named_parameters()}
        return {n for n in names if n == "mask_token" or n.endswith("relative_position_bias_table")}


@BACKBONES.register()
class Swin(SwinTrunk):
    """Swin Transformer, version 1.

    Args:
        img_size, patch_size, in_chans: see :class:`ViT`.
        embed_dim: width of the first stage; doubles with each.
        depths: number of blocks of each stage.
        num_heads: heads of each stage.
        window_size: side of the windows in patches, one for all stages or a list with one for each (S3).
            Where it is the whole map or more, there is one window and no shift.
        mlp_ratio: hidden width of the MLPs over the stage's width.
        qkv_bias: bias of the q, k, v projections.
        drop_rate: dropout after projections and MLPs, in [0, 1).
        attn_drop_rate: dropout on attention weights, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        epsilon: of the LayerNorms.
        use_mask_token: learn a token that stands for masked patches (SimMIM).
    Shape: images [B, C, H, W] -> [B, D], D = embed_dim * 2 ** (stages - 1).
    """

    def __init__(
        self, img_size=224, patch_size=4, in_chans=3, embed_dim=96, depths=(2, 2, 6, 2),
        num_heads=(3, 6, 12, 24), window_size=7, mlp_ratio=4.0, qkv_bias=True, drop_rate=0.0,
        attn_drop_rate=0.0, drop_path_rate=0.0, epsilon=1e-5, use_mask_token=False,
    ):  # fmt: skip
        def make_block(dim, grid, window, shift, heads, drop_path, stage):
            drops = drop_rate, attn_drop_rate, drop_path
            return SwinBlock(dim, grid, window, shift, heads, mlp_ratio, qkv_bias, *drops, epsilon)

        patch_embed = NormedPatchEmbed(img_size, patch_size, in_chans, embed_dim, epsilon)
        stages = depths, num_heads, window_size, drop_path_rate
        super().__init__(
            patch_embed, *stages, epsilon, use_mask_token, make_block, lambda dim: PatchMerging(dim, epsilon)
        )


def _per_stage(window_size, depths, num_heads) -> list[tuple[int, int]]:
    """(rows, columns) of each stage's windows."""
    sizes = [window_size] * len(depths) if isinstance(window_size, int) else list(window_size)
    if not len(depths) == len(num_heads) == len(sizes):
        raise ValueError(
            f"depths, num_heads and window_size must have one entry for each stage, "
            f"got {list(depths)}, {list(num_heads)} and {sizes}"
        )
    return [(size, size) for size in sizes]


def _check_even(grid, img_size, stage) -> None:
    if grid[0] % 2 or grid[1] % 2:
        raise ValueError(
            f"img_size {img_size} leaves a map of {grid[0]}x{grid[1]} before stage {stage}, "
            f"which must halve it: choose a size that halves without rest through all stages, e.g. a multiple of 32"
        )
