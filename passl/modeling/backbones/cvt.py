# SPDX-License-Identifier: Apache-2.0
"""CvT: a transformer in three stages, with convolutions in place of patch embedding, positions and linear projections.

Paper: CvT: Introducing Convolutions to Vision Transformers, ICCV 2021, https://arxiv.org/abs/2103.15808

State names are those of the official code.
"""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import DropPath, Linear, Mlp, QuickGELU, as_map, as_tokens, linear_drop_path, prepend
from passl.modeling.layers.attention import head_width
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.intermediates import block_indices, outputs_of
from passl.utils.registry import BACKBONES

from .base import StagedBackbone

_ACTIVATIONS = {"gelu": nn.GELU, "quick_gelu": QuickGELU}


class ConvEmbedding(nn.Layer):
    """Overlapping patches of a map as normed tokens (section 3.1 of the paper).

    Args:
        in_chans: input channels.
        dim: token width D.
        kernel_size, stride, padding: of the convolution.
    Shape: [B, C, H, W] -> tokens [B, N, D] and their grid (h, w).
    """

    def __init__(self, in_chans, dim, kernel_size, stride, padding, epsilon):
        super().__init__()
        self.proj = nn.Conv2D(in_chans, dim, kernel_size, stride=stride, padding=padding)
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)

    def forward(self, maps: paddle.Tensor) -> tuple[paddle.Tensor, tuple[int, int]]:
        maps = self.proj(maps)
        return self.norm(as_tokens(maps)), tuple(maps.shape[2:])


class DepthwiseProjection(nn.Layer):
    """A 3x3 convolution of each channel by itself and BatchNorm: [B, C, h, w] -> tokens [B, N, C]."""

    def __init__(self, dim, stride):
        super().__init__()
        self.conv = nn.Conv2D(dim, dim, 3, stride=stride, padding=1, groups=dim, bias_attr=False)
        self.bn = nn.BatchNorm2D(dim)

    def forward(self, maps: paddle.Tensor) -> paddle.Tensor:
        return as_tokens(self.bn(self.conv(maps)))


class ConvAttention(nn.Layer):
    """Attention whose queries, keys and values are convolved before they are projected (section 3.2).

    Keys and values are taken at every second place of the grid.  A class token passes by the convolutions.
    As in the official code the logits are divided by the root of the whole width D, not of a head's.

    Args:
        dim: token width D, divisible by ``num_heads``.
        num_heads: number of heads.
        class_token: whether the first token is a class token, outside the grid.
        attn_drop: dropout on the attention weights, in [0, 1).
        proj_drop: dropout on the output, in [0, 1).
    Shape: x [B, P + N, D] in a grid of h * w = N -> [B, P + N, D]; P is 1 with a class token, else 0.
    """

    def __init__(self, dim, num_heads, class_token, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_width(dim, num_heads)
        self.num_prefix_tokens = int(class_token)
        self.scale = dim**-0.5
        self.conv_proj_q = DepthwiseProjection(dim, stride=1)
        self.conv_proj_k = DepthwiseProjection(dim, stride=2)
        self.conv_proj_v = DepthwiseProjection(dim, stride=2)
        self.proj_q = Linear(dim, dim)
        self.proj_k = Linear(dim, dim)
        self.proj_v = Linear(dim, dim)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x: paddle.Tensor, grid: tuple[int, int]) -> paddle.Tensor:
        prefix, patches = x[:, : self.num_prefix_tokens], x[:, self.num_prefix_tokens :]
        maps = as_map(patches, grid)

        def heads(convolve, project):
            tokens = convolve(maps)
            if self.num_prefix_tokens:
                tokens = paddle.concat([prefix, tokens], axis=1)
            return project(tokens).reshape([-1, tokens.shape[1], self.num_heads, self.head_dim]).transpose([0, 2, 1, 3])

        q = heads(self.conv_proj_q, self.proj_q)  # [B, H, P + N, d]
        k = heads(self.conv_proj_k, self.proj_k)  # [B, H, P + M, d]
        v = heads(self.conv_proj_v, self.proj_v)
        attn = self.attn_drop(F.softmax(paddle.matmul(q * self.scale, k, transpose_y=True), axis=-1))
        x = paddle.matmul(attn, v).transpose([0, 2, 1, 3]).flatten(2)  # [B, P + N, D]
        return self.proj_drop(self.proj(x))


class CvTBlock(nn.Layer):
    """Pre-norm block of convolutional attention and MLP.

    Args:
        dim: token width D.
        num_heads: attention heads.
        class_token: whether the first token is a class token.
        mlp_ratio: hidden width of the MLP over ``dim``.
        drop: dropout after the projections, in [0, 1).
        attn_drop: dropout on attention weights, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
        act: class of the MLP's activation.
    Shape: x [B, P + N, D] in a grid of h * w = N -> [B, P + N, D].
    """

    def __init__(self, dim, num_heads, class_token, mlp_ratio, drop, attn_drop, drop_path, act, epsilon):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.attn = ConvAttention(dim, num_heads, class_token, attn_drop, drop)
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), act=act, drop=drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor, grid: tuple[int, int]) -> paddle.Tensor:
        x = x + self.drop_path(self.attn(self.norm1(x), grid))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class CvTStage(nn.Layer):
    """Embedding of a map as tokens, then blocks.

    Args:
        class_token: whether a learned token stands before the patches.
        drop_paths: stochastic depth rate of each block; their number is the depth.
        embedding: kernel size, stride and padding of the embedding.
    Shape: class token, which is not used, and map [B, C, H, W] -> class token [B, 1, D] or None, and map [B, D, h, w].
    """

    def __init__(
        self, in_chans, dim, embedding, num_heads, class_token, mlp_ratio, drop, attn_drop, drop_paths, act,
        epsilon,
    ):  # fmt: skip
        super().__init__()
        self.class_token = class_token
        self.cls_token = self.create_parameter([1, 1, dim]) if class_token else None
        self.patch_embed = ConvEmbedding(in_chans, dim, *embedding, epsilon)
        self.pos_drop = nn.Dropout(drop)
        self.blocks = nn.LayerList(
            [
                CvTBlock(dim, num_heads, class_token, mlp_ratio, drop, attn_drop, rate, act, epsilon)
                for rate in drop_paths
            ]
        )

    def forward(self, class_and_map) -> tuple[paddle.Tensor | None, paddle.Tensor]:
        x, grid = self.patch_embed(class_and_map[1])
        if self.class_token:
            x = prepend(self.cls_token, x)
        x = self.pos_drop(x)
        for block in self.blocks:
            x = block(x, grid)
        cls_token = None
        if self.class_token:
            cls_token, x = x[:, :1], x[:, 1:]
        return cls_token, as_map(x, grid)


@BACKBONES.register()
class CvT(StagedBackbone):
    """Convolutional vision Transformer: three stages without positions; the class token is in the last alone.

    Images of any size are accepted.  The maps are those of strides 4, 8 and 16.

    Args:
        in_chans: input channels.
        dims: token width of each stage.
        depths: number of blocks of each stage.
        num_heads: attention heads of each stage.
        mlp_ratio: hidden width of the MLPs over the tokens' width.
        drop_rate: dropout after embeddings, projections and MLPs, in [0, 1).
        attn_drop_rate: dropout on attention weights, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1) of the last block; it rises linearly from 0 through the
            last stage, the stages before have none.
        act: "quick_gelu" (official code and weights) or "gelu" (what Hugging Face runs on them).
        epsilon: of the LayerNorms.
    Shape: images [B, C, H, W] -> [B, dims[-1]].
    """

    def __init__(
        self, in_chans=3, dims=(64, 192, 384), depths=(1, 2, 10), num_heads=(1, 3, 6), mlp_ratio=4.0,
        drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0, act="quick_gelu", epsilon=1e-5,
    ):  # fmt: skip
        super().__init__()
        if act not in _ACTIVATIONS:
            raise ValueError(f"act must be one of {', '.join(map(repr, _ACTIVATIONS))}, got {act!r}")
        if not len(dims) == len(depths) == len(num_heads):
            raise ValueError(
                f"dims, depths and num_heads must name the same number of stages, got {dims}, {depths}, {num_heads}"
            )
        self.num_features, self.depths = dims[-1], tuple(depths)
        for i, (dim, depth, heads) in enumerate(zip(dims, depths, num_heads)):
            last = i == len(dims) - 1
            stage = CvTStage(
                dims[i - 1] if i else in_chans,
                dim,
                (3, 2, 1) if i else (7, 4, 2),
                heads,
                last,
                mlp_ratio,
                drop_rate,
                attn_drop_rate,
                linear_drop_path(drop_path_rate if last else 0.0, depth),
                _ACTIVATIONS[act],
                epsilon,
            )
            self.add_sublayer(f"stage{i}", stage)
        self.norm = nn.LayerNorm(dims[-1], epsilon=epsilon)

        self.apply(init_vit)
        self.apply(init_torch_conv)
        trunc_normal_(self._stages()[-1].cls_token)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The normed class token, [B, D]."""
        ((cls_token, _),) = outputs_of(self._stages(), (None, images), [len(self.depths) - 1])
        return self.norm(cls_token)[:, 0]

    def forward_features(self, images: paddle.Tensor) -> paddle.Tensor:
        """The map of the last stage [B, D, h, w]; the final norm is for the class token and is left out."""
        return self.forward_intermediates(images, [-1])[0]

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The maps after the stages ``indices``; stages after the largest are not run.

        Args:
            indices: stage numbers; negative ones count from the end.
        Shape: [B, dims[i], h, w] for each index, in the order asked for; h, w halve from stage to stage.
        """
        indices = block_indices(indices, len(self.depths))
        return [maps for _, maps in outputs_of(self._stages(), (None, images), indices)]

    def _stages(self):
        return [getattr(self, f"stage{i}") for i in range(len(self.depths))]

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: i + 1 for block i, counted through the stages, then the norm.

        Embeddings belong to the block before them, those of the first stage to 0.
        """
        if name.startswith("norm."):
            return self.num_layers + 1
        stage, part, rest = name.split(".", 2) if name.count(".") > 1 else (*name.split("."), "")
        return self._depth(stage[len("stage") :], rest.split(".")[0] if part == "blocks" else None)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        return {f"stage{len(self.depths) - 1}.cls_token"}
