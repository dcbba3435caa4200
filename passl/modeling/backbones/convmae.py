# SPDX-License-Identifier: Apache-2.0
"""ConvMAE's encoder, ConvViT: two stages of masked convolutions, then a transformer.

Paper: ConvMAE: Masked Convolution Meets Masked Autoencoders, NeurIPS 2022, https://arxiv.org/abs/2205.03892

State names are those of the official code.
"""

from __future__ import annotations

import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import (
    Block,
    DropPath,
    LayerNorm2d,
    Linear,
    as_map,
    as_tokens,
    check_image_size,
    linear_drop_path,
    pair,
    resize_pos_embed,
    select_tokens,
    sincos_2d,
)
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.intermediates import block_indices
from passl.modeling.layers.norm import token_and_mean_norm
from passl.utils.registry import BACKBONES

from .base import StagedBackbone

_CONV_EPSILON = 1e-5  # of the norms in the convolutional stages and the patch embeddings


class MaskedConvBlock(nn.Layer):
    """x + conv2(attn(mask * conv1(norm(x)))), then x + mlp(norm(x)), on maps (section 3.1).

    ``attn`` is a depthwise 5x5 convolution in the place of attention.  Masked places are set to 0 before it,
    so that nothing of them comes into those that are kept.

    Args:
        dim: channels.
        mlp_ratio: hidden channels of the MLP, two 1x1 convolutions, over ``dim``.
        drop: dropout in the MLP, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
    Shape: x [B, dim, h, w], kept [B, 1, h, w] or None -> [B, dim, h, w].
    """

    def __init__(self, dim, mlp_ratio=4.0, drop=0.0, drop_path=0.0):
        super().__init__()
        self.norm1 = LayerNorm2d(dim, _CONV_EPSILON)
        self.conv1 = nn.Conv2D(dim, dim, 1)
        self.attn = nn.Conv2D(dim, dim, 5, padding=2, groups=dim)
        self.conv2 = nn.Conv2D(dim, dim, 1)
        self.norm2 = LayerNorm2d(dim, _CONV_EPSILON)
        self.mlp = ConvPerceptron(dim, int(dim * mlp_ratio), drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor, kept: paddle.Tensor | None = None) -> paddle.Tensor:
        branch = self.conv1(self.norm1(x))
        if kept is not None:
            branch = branch * kept
        x = x + self.drop_path(self.conv2(self.attn(branch)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class ConvPerceptron(nn.Layer):
    """The two-layer perceptron at each place of a map, as 1x1 convolutions.

    Shape: [B, dim, h, w], unchanged.
    """

    def __init__(self, dim, hidden_dim, drop=0.0):
        super().__init__()
        self.fc1 = nn.Conv2D(dim, hidden_dim, 1)
        self.fc2 = nn.Conv2D(hidden_dim, dim, 1)
        self.drop = nn.Dropout(drop)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.drop(self.fc2(self.drop(F.gelu(self.fc1(x)))))


class ConvPatchEmbed(nn.Layer):
    """gelu(norm(convolution)) with a kernel as large as its stride.

    Shape: [B, in_chans, H, W] -> [B, dim, H / patch_size, W / patch_size].
    """

    def __init__(self, in_chans, dim, patch_size):
        super().__init__()
        self.proj = nn.Conv2D(in_chans, dim, patch_size, stride=patch_size)
        self.norm = LayerNorm2d(dim, _CONV_EPSILON)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return F.gelu(self.norm(self.proj(x)))


@BACKBONES.register()
class ConvViT(StagedBackbone):
    """The encoder of ConvMAE.

    Args:
        img_size: height and width in pixels, one number or a pair, divisible by 16.
        in_chans: input channels.
        embed_dims: widths of the three stages.
        depths: number of blocks of each stage.
        num_heads: heads of the transformer.
        mlp_ratio: hidden width of the MLPs over the stage's width.
        qkv_bias: bias of the q, k, v projections.
        multi_scale: add projections of the first two stages to the last (pre-training).
        pos_embed: "learned" positions (fine-tuning), or MAE's fixed "sincos" table, which is a buffer (pre-training).
        global_pool: whether the mean of the patches is normed (the official fine-tuning), or the patches before it.
        drop_rate: dropout after patches, projections and MLPs, in [0, 1).
        attn_drop_rate: dropout on attention weights, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        epsilon: of the transformer's LayerNorms; those of the convolutional stages have 1e-5.
    Shape: images [B, C, H, W] -> [B, embed_dims[2]].
    """

    def __init__(
        self, img_size=224, in_chans=3, embed_dims=(256, 384, 768), depths=(2, 2, 11), num_heads=12,
        mlp_ratio=4.0, qkv_bias=True, multi_scale=False, pos_embed="learned", global_pool=True, drop_rate=0.0,
        attn_drop_rate=0.0, drop_path_rate=0.0, epsilon=1e-6,
    ):  # fmt: skip
        super().__init__()
        if len(embed_dims) != 3 or len(depths) != 3:
            raise ValueError(f"embed_dims and depths must have 3 entries, got {list(embed_dims)} and {list(depths)}")
        if pos_embed not in ("learned", "sincos"):
            raise ValueError(f"pos_embed must be 'learned' or 'sincos', got {pos_embed!r}")
        self.img_size = pair(img_size)
        if any(side % 16 for side in self.img_size):
            raise ValueError(f"img_size {self.img_size} must be divisible by 16, the sides of the patches")
        self.num_features, self.depths, self.global_pool = embed_dims[-1], tuple(depths), global_pool
        self.grid_size = tuple(side // 16 for side in self.img_size)
        chans = in_chans
        for i, (dim, patch_size) in enumerate(zip(embed_dims, (4, 2, 2)), 1):
            setattr(self, f"patch_embed{i}", ConvPatchEmbed(chans, dim, patch_size))
            chans = dim
        self.patch_embed4 = Linear(chans, chans)
        self.stage1_output_decode = nn.Conv2D(embed_dims[0], chans, 4, stride=4) if multi_scale else None
        self.stage2_output_decode = nn.Conv2D(embed_dims[1], chans, 2, stride=2) if multi_scale else None
        num_patches = self.grid_size[0] * self.grid_size[1]
        if pos_embed == "learned":
            self.pos_embed = self.create_parameter([1, num_patches, chans])
        else:
            self.register_buffer("pos_embed", paddle.to_tensor(sincos_2d(chans, self.grid_size)).unsqueeze(0))
        self.pos_drop = nn.Dropout(drop_rate)
        rates = iter(linear_drop_path(drop_path_rate, sum(depths)))
        for i in (1, 2):
            blocks = [
                MaskedConvBlock(embed_dims[i - 1], mlp_ratio, drop_rate, next(rates)) for _ in range(depths[i - 1])
            ]
            setattr(self, f"blocks{i}", nn.LayerList(blocks))
        self.blocks3 = nn.LayerList(
            [
                Block(chans, num_heads, mlp_ratio, qkv_bias, drop_rate, attn_drop_rate, next(rates), epsilon=epsilon)
                for _ in range(depths[2])
            ]
        )
        self.norm, self.fc_norm = token_and_mean_norm(chans, epsilon, norm_mean=global_pool)
        self._init_weights()

    def _init_weights(self):
        self.apply(init_vit)
        self.apply(init_torch_conv)
        if not self.pos_embed.stop_gradient:
            trunc_normal_(self.pos_embed)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The pooled, normed features [B, D]."""
        return self.fc_norm(self._tokens(images).mean(1))

    def forward_features(self, images: paddle.Tensor, keep: paddle.Tensor | None = None) -> paddle.Tensor:
        """The patches after the last block: a map [B, D, h, w], or with ``keep`` tokens [B, M, D].

        Normed, unless the mean is.

        Args:
            keep: [B, M] indices of the patches to encode.  The convolutions see no other patches.
        """
        x = self._tokens(images, keep)
        return as_map(x, self.grid_size) if keep is None else x

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The maps after the stages ``indices`` (0 to 2), the last as from ``forward_features``.

        Stages after the largest index are not run.

        Shape: [B, C, h, w] for each index, in the order asked for; h and w are a 4th, 8th and 16th of the image's.
        """
        indices = block_indices(indices, 3)
        if max(indices) == 2:
            first, second, tokens = self._stages(images)
            maps = [first, second, as_map(tokens, self.grid_size)]
        else:
            maps = self._convolve(images, None, max(indices) + 1)
        return [maps[i] for i in indices]

    def _tokens(self, images, keep=None):
        return self._stages(images, keep)[2]

    def _stages(self, images, keep=None):
        """Two maps and the tokens of the transformer."""
        first, second = self._convolve(images, keep, 2)
        x = self.patch_embed4(as_tokens(self.patch_embed3(second)))  # [B, N, D]
        x = x + self.pos_embed
        if keep is not None:
            x = select_tokens(x, keep)  # [B, M, D]
        for block in self.blocks3:
            x = block(x)
        if self.stage1_output_decode is not None:
            for decode, maps in ((self.stage1_output_decode, first), (self.stage2_output_decode, second)):
                scale = as_tokens(decode(maps))
                x = x + (scale if keep is None else select_tokens(scale, keep))
        return first, second, self.norm(x)

    def _convolve(self, images, keep, num_stages):
        """Maps after the first stages."""
        check_image_size(images, self.img_size)
        maps, x = [], images
        for i, side in ((1, 4), (2, 2))[:num_stages]:
            x = getattr(self, f"patch_embed{i}")(x)
            x = self.pos_drop(x) if i == 1 else x
            kept = None if keep is None else kept_places(keep, self.grid_size, side).astype(x.dtype)
            for block in getattr(self, f"blocks{i}"):
                x = block(x, kept)
            maps.append(x)
        return maps

    def adapt_weights(self, arrays):
        """Resample the positions to this model's grid, bicubically without antialias, as the official code does."""
        table, (height, width) = arrays.get("pos_embed"), self.grid_size
        if table is not None and table.shape[1] != height * width:
            side = math.isqrt(table.shape[1])
            if side * side == table.shape[1]:
                arrays["pos_embed"] = resize_pos_embed(table, (side, side), self.grid_size, antialias=False).numpy()
        return arrays

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: i + 1 for block i, counted through the stages, the last norm behind them.

        What stands between two stages belongs to the block before it.
        """
        part, _, rest = name.partition(".")
        if part in ("norm", "fc_norm") or part.endswith("_output_decode"):
            return self.num_layers + 1
        stage = 3 if part in ("pos_embed", "patch_embed4") else int(part[-1])
        return self._depth(stage - 1, rest.split(".")[0] if part.startswith("blocks") else None)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        return {name for name, _ in self.named_parameters() if name == "pos_embed"}


def kept_places(keep: paddle.Tensor, grid_size: tuple[int, int], side: int) -> paddle.Tensor:
    """1 at the places of a finer map that lie in the patches ``keep`` [B, M], 0 elsewhere.

    Args:
        grid_size: rows and columns of patches.
        side: places of the finer map along one side of a patch.
    Shape: [B, 1, rows * side, columns * side].
    """
    kept = F.one_hot(keep, int(np.prod(grid_size))).max(1).reshape([-1, 1, *grid_size])
    return kept.repeat_interleave(side, axis=2).repeat_interleave(side, axis=3)
