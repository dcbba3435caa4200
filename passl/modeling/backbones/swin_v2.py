# SPDX-License-Identifier: Apache-2.0
"""Swin v2: cosine attention, biases from a small network on log offsets, norms behind the branches.

Paper: Swin Transformer V2, CVPR 2022, https://arxiv.org/abs/2111.09883

State names are timm's (``swinv2_*``), where the merging of patches begins a stage; in the official code it ends the
one before.
"""

from __future__ import annotations

import math

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant

from passl.modeling.layers import pair
from passl.modeling.layers.init import zeros_
from passl.modeling.layers.relative_position import (
    QueryValueBiased,
    biased_attention,
    look_up_bias,
    relative_position_index,
)
from passl.utils.registry import BACKBONES

from .swin import NormedPatchEmbed, PatchMerging, SwinBlock, SwinTrunk, join_neighbours

LARGEST_SCALE = 100.0  # of the cosines; the paper's temperature is at least 0.01
LARGEST_BIAS = 16.0


class CosineWindowAttention(QueryValueBiased):
    """softmax(cos(q, k) / tau + B) v within a window, tau learned for each head (eq. 2).

    B is not a table but 16 sigmoid(G(offsets)), with a network G of two layers on the log-spaced offsets (eq. 3, 4),
    so that it continues to windows of other sizes.  q and v have a bias, k has none.

    Args:
        dim, num_heads, qkv_bias, attn_drop, proj_drop: see :class:`QueryValueBiased`.
        window_size: rows and columns of the window.
        pretrained_window_size: rows and columns of the window whose offsets G has learned; None: this one.
    Shape: windows [W, N, dim], mask [windows of an image, N, N] or None -> [W, N, dim].
    """

    def __init__(
        self, dim, window_size, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0, pretrained_window_size=None
    ):
        super().__init__(dim, num_heads, qkv_bias, attn_drop, proj_drop)
        self.logit_scale = self.create_parameter([num_heads, 1, 1], default_initializer=Constant(math.log(10.0)))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 512), nn.ReLU(), nn.Linear(512, num_heads, bias_attr=False))
        offsets = paddle.to_tensor(log_offsets(window_size, pretrained_window_size or window_size))
        index = paddle.to_tensor(relative_position_index(window_size))
        self.register_buffer("relative_coords_table", offsets, persistable=False)
        self.register_buffer("relative_position_index", index, persistable=False)

    def forward(self, x: paddle.Tensor, mask: paddle.Tensor | None = None) -> paddle.Tensor:
        q, k, v = self.project(x)
        scale = paddle.exp(paddle.clip(self.logit_scale, max=math.log(LARGEST_SCALE)))  # [H, 1, 1]
        logits = paddle.matmul(F.normalize(q, axis=-1) * scale, F.normalize(k, axis=-1), transpose_y=True)
        table = LARGEST_BIAS * F.sigmoid(self.cpb_mlp(self.relative_coords_table))  # [offsets, H]
        bias = look_up_bias(table, self.relative_position_index)
        return self.proj_drop(self.proj(biased_attention(logits, v, bias, mask, self.attn_drop)))


def log_offsets(window_size: tuple[int, int], pretrained_window_size: tuple[int, int]) -> np.ndarray:
    """sign(o) log2(1 + |o|) / 3 of the offsets o, which reach to ±8 in the window of the pre-training.

    Shape: [(2 h - 1) (2 w - 1), 2] float32, vertical offset first, in the order of the bias table.
    """
    axes = []
    for side, known in zip(window_size, pretrained_window_size):
        offset = 8.0 * np.arange(1 - side, side) / max(known - 1, 1)
        axes.append(np.sign(offset) * np.log2(1.0 + np.abs(offset)) / 3.0)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2).astype("float32")


class SwinV2Block(SwinBlock):
    """x + norm(windows(x)), then x + norm(mlp(x)), with stochastic depth (section 3.1).

    The norms start at 0, so that a block begins as the identity, as in the official code.

    Args: as :class:`~passl.modeling.backbones.swin.SwinBlock`, and ``pretrained_window_size`` as
        :class:`CosineWindowAttention`.
    Shape: [B, h, w, dim] -> [B, h, w, dim].
    """

    attention = CosineWindowAttention

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self.drop_path(self.norm1(self.windows(x, self.attn)))
        return x + self.drop_path(self.norm2(self.mlp(x)))


class PatchMergingV2(PatchMerging):
    """Joins 2 x 2 neighbours, projects them and norms the result; the arguments of :class:`PatchMerging`."""

    norm_ratio = 2

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.norm(self.reduction(join_neighbours(x)))


@BACKBONES.register()
class SwinV2(SwinTrunk):
    """Swin Transformer, version 2.

    Args: those of :class:`~passl.modeling.backbones.swin.Swin`; ``qkv_bias`` is for q and v, and
        pretrained_window_size: side of the windows of each stage in the training that the weights come from, as
            far as they differ from ``window_size``; a list with one for each stage, or None.
    Shape: images [B, C, H, W] -> [B, D], D = embed_dim * 2 ** (stages - 1).
    """

    def __init__(
        self, img_size=256, patch_size=4, in_chans=3, embed_dim=96, depths=(2, 2, 6, 2),
        num_heads=(3, 6, 12, 24), window_size=8, pretrained_window_size=None, mlp_ratio=4.0, qkv_bias=True,
        drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0, epsilon=1e-5, use_mask_token=False,
    ):  # fmt: skip
        if pretrained_window_size is not None and len(pretrained_window_size) != len(depths):
            raise ValueError(
                f"pretrained_window_size must have one entry for each of the {len(depths)} stages, "
                f"got {list(pretrained_window_size)}"
            )

        def make_block(dim, grid, window, shift, heads, drop_path, stage):
            known = pretrained_window_size and pair(pretrained_window_size[stage])
            drops = drop_rate, attn_drop_rate, drop_path
            options = {"pretrained_window_size": known}
            return SwinV2Block(dim, grid, window, shift, heads, mlp_ratio, qkv_bias, *drops, epsilon, **options)

        patch_embed = NormedPatchEmbed(img_size, patch_size, in_chans, embed_dim, epsilon)
        stages = depths, num_heads, window_size, drop_path_rate
        super().__init__(
            patch_embed, *stages, epsilon, use_mask_token, make_block, lambda dim: PatchMergingV2(dim, epsilon)
        )
        for layer in self.sublayers():
            if isinstance(layer, SwinV2Block):
                zeros_(layer.norm1.weight)
                zeros_(layer.norm2.weight)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        names = {name for name, _ in self.named_parameters()}
        return {n for n in names if n == "mask_token" or "cpb_mlp" in n or n.endswith("logit_scale")}
