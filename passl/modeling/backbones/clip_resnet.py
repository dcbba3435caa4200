# SPDX-License-Identifier: Apache-2.0
"""CLIP's ResNets: three convolutions as stem, pooling before strided convolutions, attention in place of the mean.

Paper: Learning Transferable Visual Models From Natural Language Supervision, ICML 2021,
https://arxiv.org/abs/2103.00020, section 2.4

State names are timm's, but for the attention pooling, which timm counts to the classifier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Normal

from passl.modeling.layers import as_tokens, check_image_size, pair, resize_pos_embed
from passl.modeling.layers.conv_norm import ConvNorm
from passl.modeling.layers.init import init_kaiming, zeros_
from passl.utils.registry import BACKBONES

from .base import StagedBackbone

EXPANSION = 4  # output channels of a block over its inner ones
HEAD_DIM = 64
REDUCTION = 32  # pixels of the image along a side of the last map


class Stem(nn.Layer):
    """Three 3x3 convolutions, the first of which strides, and a mean over squares of 2x2.

    Args:
        in_chans, out_chans: channels; the first two convolutions have half of ``out_chans``.
    Shape: [B, in_chans, H, W] -> [B, out_chans, H / 4, W / 4].
    """

    def __init__(self, in_chans, out_chans):
        super().__init__()
        self.conv1 = ConvNorm(in_chans, out_chans // 2, 3, stride=2)
        self.conv2 = ConvNorm(out_chans // 2, out_chans // 2, 3)
        self.conv3 = ConvNorm(out_chans // 2, out_chans, 3)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        x = images
        for conv in (self.conv1, self.conv2, self.conv3):
            x = F.relu(conv(x))
        return F.avg_pool2d(x, 2)


class Shortcut(nn.Layer):
    """A mean over squares, then a 1x1 projection.

    Args:
        in_chans, out_chans: channels.
        stride: side of the squares.
    Shape: [B, in_chans, h, w] -> [B, out_chans, h / stride, w / stride].
    """

    def __init__(self, in_chans, out_chans, stride):
        super().__init__()
        self.stride = stride
        self.conv = ConvNorm(in_chans, out_chans)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.conv(F.avg_pool2d(x, self.stride) if self.stride > 1 else x)


class Bottleneck(nn.Layer):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; instead of striding, squares are averaged before the last.

    Args:
        in_chans: input channels.
        planes: a quarter of the output channels.
        stride: side of the squares.
    Shape: [B, in_chans, h, w] -> [B, 4 * planes, h / stride, w / stride].
    """

    def __init__(self, in_chans, planes, stride):
        super().__init__()
        out_chans = EXPANSION * planes
        self.stride = stride
        self.conv1_1x1 = ConvNorm(in_chans, planes)
        self.conv2_kxk = ConvNorm(planes, planes, 3)
        self.conv3_1x1 = ConvNorm(planes, out_chans)
        same = in_chans == out_chans and stride == 1
        self.shortcut = nn.Identity() if same else Shortcut(in_chans, out_chans, stride)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        branch = F.relu(self.conv2_kxk(F.relu(self.conv1_1x1(x))))
        if self.stride > 1:
            branch = F.avg_pool2d(branch, self.stride)
        return F.relu(self.conv3_1x1(branch) + self.shortcut(x))


class AttentionPool(nn.Layer):
    """Multi-head attention in which the mean of all places asks, and it and all places answer.

    Args:
        dim: channels C, divisible by the width of a head, 64.
        grid_size: rows and columns of the map.
    Shape: [B, C, h, w] -> [B, C].
    """

    def __init__(self, dim, grid_size):
        super().__init__()
        if dim % HEAD_DIM:
            raise ValueError(f"attention pooling needs channels divisible by {HEAD_DIM}, got {dim}")
        self.num_heads = dim // HEAD_DIM
        self.grid_size = tuple(grid_size)
        self.pos_embed = self.create_parameter([1 + grid_size[0] * grid_size[1], dim])
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = as_tokens(x)  # [B, N, C]
        x = paddle.concat([x.mean(1, keepdim=True), x], axis=1) + self.pos_embed  # [B, 1 + N, C]
        q, k, v = self._heads(self.q(x[:, :1])), self._heads(self.k(x)), self._heads(self.v(x))
        weights = F.softmax(paddle.matmul(q * HEAD_DIM**-0.5, k, transpose_y=True), axis=-1)  # [B, H, 1, 1 + N]
        return paddle.matmul(weights, v).flatten(1)

    def _heads(self, x):
        """[B, N, C] -> [B, H, N, 64]."""
        return x.reshape([0, -1, self.num_heads, HEAD_DIM]).transpose([0, 2, 1, 3])


@BACKBONES.register()
class CLIPResNet(StagedBackbone):
    """The convolutional image towers of CLIP, without the projection into the space that they share with texts.

    Args:
        img_size: height and width in pixels, one number or a pair, divisible by 32.
        in_chans: input channels.
        depths: blocks of each stage.
        width: channels of the stem, and ``planes`` of the first stage; even.
    Shape: images [B, C, H, W] -> [B, 32 * width].
    """

    def __init__(self, img_size=224, in_chans=3, depths: Sequence[int] = (3, 4, 6, 3), width=64):
        super().__init__()
        self.img_size = pair(img_size)
        if any(side % REDUCTION for side in self.img_size):
            raise ValueError(f"img_size {self.img_size} must be divisible by {REDUCTION}")
        self.depths = tuple(depths)
        self.num_features = EXPANSION * width * 2 ** (len(depths) - 1)
        self.stem = Stem(in_chans, width)
        self.stages = nn.LayerList()
        in_chans = width
        for stage, depth in enumerate(depths):
            planes = width * 2**stage
            blocks = []
            for i in range(depth):
                blocks.append(Bottleneck(in_chans, planes, 2 if stage > 0 and i == 0 else 1))
                in_chans = EXPANSION * planes
            self.stages.append(nn.Sequential(*blocks))
        self.attn_pool = AttentionPool(self.num_features, [side // REDUCTION for side in self.img_size])
        self._init_weights()

    def _init_weights(self):
        self.apply(init_kaiming)
        for stage in self.stages:
            for block in stage:
                zeros_(block.conv3_1x1.bn.weight)  # blocks begin as identities
        normal = Normal(0.0, self.num_features**-0.5)
        normal(self.attn_pool.pos_embed)
        for layer in (self.attn_pool.q, self.attn_pool.k, self.attn_pool.v):
            normal(layer.weight)
            zeros_(layer.bias)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """What the attention gathers from the last map, [B, D]."""
        return self.attn_pool(self.forward_features(images))

    def _enter(self, images):
        check_image_size(images, self.img_size)
        return self.stem(images)

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the stem, i + 1 for block i, num_layers + 1 for the pooling."""
        part, _, rest = name.partition(".")
        if part != "stages":
            return 0 if part == "stem" else self.num_layers + 1
        return self._depth(*rest.split(".")[:2])

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        return {"attn_pool.pos_embed"}

    def adapt_weights(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Resample the positions of a square map to the grid of this model."""
        name = "attn_pool.pos_embed"
        table, places = arrays.get(name), self.attn_pool.pos_embed.shape[0] - 1
        if table is None or table.ndim != 2 or table.shape[0] == places + 1:
            return arrays
        side = round((table.shape[0] - 1) ** 0.5)
        if side * side != table.shape[0] - 1:
            return arrays
        resized = resize_pos_embed(table[None], (side, side), self.attn_pool.grid_size, num_prefix_tokens=1)
        return {**arrays, name: resized.numpy()[0]}
