# SPDX-License-Identifier: Apache-2.0
"""LeViT: a pyramid of attention stages on a convolutional stem, with BatchNorm instead of LayerNorm, made for speed.

Paper: LeViT: a Vision Transformer in ConvNet's Clothing for Faster Inference, ICCV 2021,
https://arxiv.org/abs/2104.01136

State names are timm's.
"""

from __future__ import annotations

import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import DropPath, as_map, as_tokens, check_image_size, pair
from passl.modeling.layers.fuse import ConvNorm, LinearNorm, fuse_norms
from passl.modeling.layers.init import init_torch_conv, trunc_normal_, zeros_
from passl.modeling.layers.intermediates import block_indices, outputs_of
from passl.utils.registry import BACKBONES

from .base import StagedBackbone

BIASES = "attention_biases"


class BiasedAttention(nn.Layer):
    """Attention of some places of a map to all, with a learned bias for each distance and head (section 4.3).

    The bias depends on the absolute row and column distance between query and key: one entry for each
    place of the map, seen from its corner.

    Args:
        grid_size: rows and columns of the map.
        key_dim: width of a head's queries and keys.
        num_heads: number of heads.
        value_ratio: width of a head's values over ``key_dim``.
        stride: every which row and column asks; 1 for all places.
    """

    def __init__(self, grid_size, key_dim, num_heads, value_ratio, stride=1):
        super().__init__()
        self.grid_size, self.stride = tuple(grid_size), stride
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, int(value_ratio * key_dim)
        height, width = self.grid_size
        self.attention_biases = self.create_parameter([num_heads, height * width], default_initializer=zeros_)
        index = paddle.to_tensor(distance_index(self.grid_size, stride))
        self.register_buffer("index", index, persistable=False)

    def attend(self, q: paddle.Tensor, k: paddle.Tensor, v: paddle.Tensor) -> paddle.Tensor:
        """softmax(q k^T / sqrt(d) + bias) v, heads side by side: q [B, M, H, d], k [B, N, H, d], v [B, N, H, e]."""
        q, k, v = (x.transpose([0, 2, 1, 3]) for x in (q, k, v))
        num_queries, num_keys = self.index.shape
        bias = paddle.index_select(self.attention_biases, self.index.flatten(), axis=1)
        bias = bias.reshape([self.num_heads, num_queries, num_keys])
        attn = F.softmax(paddle.matmul(q * self.key_dim**-0.5, k, transpose_y=True) + bias, axis=-1)  # [B, H, M, N]
        x = paddle.matmul(attn, v).transpose([0, 2, 1, 3])  # [B, M, H, e]
        return x.reshape([-1, num_queries, self.num_heads * self.value_dim])


class LeViTAttention(BiasedAttention):
    """Attention of all places to all.

    Args: as :class:`BiasedAttention`; ``dim`` is the token width.
    Shape: [B, N, dim] -> [B, N, dim].
    """

    def __init__(self, dim, grid_size, key_dim, num_heads, value_ratio):
        super().__init__(grid_size, key_dim, num_heads, value_ratio)
        self.qkv = LinearNorm(dim, num_heads * (2 * key_dim + self.value_dim))
        self.proj = activated_linear(num_heads * self.value_dim, dim, norm_weight=0.0)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        qkv = self.qkv(x).reshape([-1, x.shape[1], self.num_heads, 2 * self.key_dim + self.value_dim])
        return self.proj(self.attend(*qkv.split([self.key_dim, self.key_dim, self.value_dim], axis=-1)))


class LeViTDownAttention(BiasedAttention):
    """Attention in which only every other row and column asks: the map halves, its width changes (section 4.4).

    Args: as :class:`BiasedAttention`; ``dim`` and ``out_dim`` are the token widths before and after.
    Shape: [B, N, dim] -> [B, M, out_dim], M the places of the halved map, sides rounded up.
    """

    def __init__(self, dim, out_dim, grid_size, key_dim, num_heads, value_ratio):
        super().__init__(grid_size, key_dim, num_heads, value_ratio, stride=2)
        self.kv = LinearNorm(dim, num_heads * (key_dim + self.value_dim))
        self.q = nn.Sequential(("ln", LinearNorm(dim, num_heads * key_dim)))
        self.proj = activated_linear(num_heads * self.value_dim, out_dim)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        num_tokens, dim = x.shape[1:]
        kv = self.kv(x).reshape([-1, num_tokens, self.num_heads, self.key_dim + self.value_dim])
        asking = x.reshape([-1, *self.grid_size, dim])[:, :: self.stride, :: self.stride].flatten(1, 2)  # [B, M, D]
        q = self.q(asking).reshape([-1, asking.shape[1], self.num_heads, self.key_dim])
        return self.proj(self.attend(q, *kv.split([self.key_dim, self.value_dim], axis=-1)))


class LeViTMlp(nn.Layer):
    """Linear, hard-swish, Linear, with a BatchNorm behind each linear layer; the second starts at 0.

    Shape: [B, N, dim] -> [B, N, dim].
    """

    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.ln1 = LinearNorm(dim, hidden_dim)
        self.act = nn.Hardswish()
        self.ln2 = LinearNorm(hidden_dim, dim, norm_weight=0.0)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.ln2(self.act(self.ln1(x)))


class LeViTBlock(nn.Layer):
    """x + attention(x), then x + mlp(x), with stochastic depth; the branches start at 0.

    Shape: [B, N, dim] -> [B, N, dim].
    """

    def __init__(self, dim, grid_size, key_dim, num_heads, value_ratio, mlp_ratio, drop_path):
        super().__init__()
        self.attn = LeViTAttention(dim, grid_size, key_dim, num_heads, value_ratio)
        self.mlp = LeViTMlp(dim, int(dim * mlp_ratio))
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self.drop_path(self.attn(x))
        return x + self.drop_path(self.mlp(x))


class LeViTDownsample(nn.Layer):
    """Attention that halves the map, without a residual connection, then x + mlp(x).

    Shape: [B, N, dim] -> [B, M, out_dim].
    """

    def __init__(self, dim, out_dim, grid_size, key_dim, value_ratio, mlp_ratio, drop_path):
        super().__init__()
        self.attn_downsample = LeViTDownAttention(dim, out_dim, grid_size, key_dim, dim // key_dim, value_ratio)
        self.mlp = LeViTMlp(out_dim, int(out_dim * mlp_ratio))
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = self.attn_downsample(x)
        return x + self.drop_path(self.mlp(x))


class LeViTStage(nn.Layer):
    """Halving of the map, except in the first stage, then blocks."""

    def __init__(self, downsample, blocks):
        super().__init__()
        self.downsample = downsample
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.blocks(self.downsample(x))


@BACKBONES.register()
class LeViT(StagedBackbone):
    """LeViT.

    Args:
        img_size: height and width in pixels, one number or a pair, divisible by 16.
        in_chans: input channels.
        embed_dims: token width of each stage; the first is divisible by 8, all but the last by ``key_dim``.
        key_dim: width of a head's queries and keys; values have twice that, four times where the map halves.
        depths: number of blocks of each stage.
        num_heads: heads of each stage's blocks.
        mlp_ratio: hidden width of the MLPs over the stage's width.
        drop_path_rate: stochastic depth in [0, 1), the same in every block.
    Shape: images [B, C, H, W] -> [B, embed_dims[-1]].
    """

    def __init__(
        self, img_size=224, in_chans=3, embed_dims=(256, 384, 512), key_dim=32, depths=(4, 4, 4),
        num_heads=(4, 6, 8), mlp_ratio=2.0, drop_path_rate=0.0,
    ):  # fmt: skip
        super().__init__()
        if not len(embed_dims) == len(depths) == len(num_heads):
            raise ValueError(
                f"embed_dims, depths and num_heads must have one entry for each stage, "
                f"got {list(embed_dims)}, {list(depths)} and {list(num_heads)}"
            )
        self.img_size = pair(img_size)
        if any(side % 16 for side in self.img_size):
            raise ValueError(f"img_size {self.img_size} must be divisible by 16, the stride of the stem")
        self.num_features, self.depths = embed_dims[-1], tuple(depths)
        dim, grid = embed_dims[0], tuple(side // 16 for side in self.img_size)
        self.stem = stem(in_chans, dim)
        self.grid_sizes, stages = [], []
        for out_dim, depth, heads in zip(embed_dims, depths, num_heads):
            downsample = nn.Identity()
            if stages:
                downsample = LeViTDownsample(dim, out_dim, grid, key_dim, 4, mlp_ratio, drop_path_rate)
                grid = tuple((side + 1) // 2 for side in grid)
            dim = out_dim
            blocks = [LeViTBlock(dim, grid, key_dim, heads, 2, mlp_ratio, drop_path_rate) for _ in range(depth)]
            stages.append(LeViTStage(downsample, blocks))
            self.grid_sizes.append(grid)
        self.stages = nn.LayerList(stages)
        self.apply(_init_weights)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The mean over all places of the last map, [B, D]."""
        return self._run(images, [len(self.stages) - 1])[0].mean(1)

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The maps after the stages ``indices``; stages after the largest are not run.

        Shape: [B, C, h, w] for each index, in the order asked for; h and w halve, rounded up, from stage to stage.
        """
        indices = block_indices(indices, len(self.stages))
        tokens = self._run(images, indices)
        return [as_map(x, self.grid_sizes[i]) for i, x in zip(indices, tokens)]

    def _run(self, images, indices):
        """Tokens [B, N, C] after the stages ``indices``."""
        check_image_size(images, self.img_size)
        return outputs_of(self.stages, as_tokens(self.stem(images)), indices)

    def fuse(self) -> LeViT:
        """Merge each BatchNorm into the layer before it, for inference; the outputs in evaluation stay the same.

        The state names change: save and load weights before.
        """
        fuse_norms(self)
        return self

    def adapt_weights(self, arrays):
        """Stretch the tables of biases to this model's maps, so that no distance and the largest stay what they were.

        The references do not change a model's size; timm and the authors refuse such weights.
        """
        for name, layer in self.named_sublayers():
            key = f"{name}.{BIASES}"
            if not isinstance(layer, BiasedAttention) or key not in arrays:
                continue
            table, (height, width) = arrays[key], layer.grid_size
            side = math.isqrt(table.shape[1])
            if table.shape[1] == height * width or side * side != table.shape[1]:
                continue
            maps = paddle.to_tensor(table, dtype="float32").reshape([1, -1, side, side])
            maps = F.interpolate(maps, size=[height, width], mode="bilinear", align_corners=True)
            arrays[key] = maps.reshape([table.shape[0], -1]).numpy()
        return arrays

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the stem, i + 1 for block i, counted through the stages.

        What halves a map belongs to the block before it.
        """
        part, _, rest = name.partition(".")
        if part == "stem":
            return 0
        stage, kind, place = rest.split(".")[:3]
        return self._depth(stage, place if kind == "blocks" else None)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        return {name for name, _ in self.named_parameters() if name.endswith(BIASES)}


def stem(in_chans: int, dim: int) -> nn.Sequential:
    """Four 3x3 convolutions of stride 2 with hard-swish between them, [B, in_chans, H, W] -> [B, dim, H/16, W/16]."""
    widths = [in_chans, dim // 8, dim // 4, dim // 2, dim]
    layers = []
    for i in range(1, 5):
        layers.append((f"conv{i}", ConvNorm(widths[i - 1], widths[i], 3, stride=2, padding=1)))
        if i < 4:
            layers.append((f"act{i}", nn.Hardswish()))
    return nn.Sequential(*layers)


def activated_linear(dim: int, out_dim: int, norm_weight: float = 1.0) -> nn.Sequential:
    """Hard-swish, then a linear layer with BatchNorm."""
    return nn.Sequential(("act", nn.Hardswish()), ("ln", LinearNorm(dim, out_dim, norm_weight)))


def distance_index(grid_size: tuple[int, int], stride: int) -> np.ndarray:
    """Entry of the bias table for each query, every ``stride``-th place of the map, and each key: [M, N] int64."""
    height, width = grid_size
    y, x = (axis.flatten() for axis in np.mgrid[:height, :width])
    rows, columns = (axis.flatten() for axis in np.mgrid[:height:stride, :width:stride])
    index = np.abs(rows[:, None] - y) * width + np.abs(columns[:, None] - x)
    return index.astype("int64")


def _init_weights(layer):
    if isinstance(layer, nn.Linear):
        trunc_normal_(layer.weight)
    elif isinstance(layer, nn.Conv2D):
        init_torch_conv(layer)
