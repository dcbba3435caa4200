# SPDX-License-Identifier: Apache-2.0
"""BEiT and BEiT v2: a ViT that knows places by relative position biases alone.

Paper: BEiT: BERT Pre-Training of Image Transformers, ICLR 2022, https://arxiv.org/abs/2106.08254
BEiT v2: Masked Image Modeling with Vector-Quantized Visual Tokenizers, 2022, https://arxiv.org/abs/2208.06366

State names are those of the official code and of timm, which agree.
"""

from __future__ import annotations

import math

import paddle
from paddle import nn

from passl.modeling.layers import (
    DropPath,
    Mlp,
    PatchEmbed,
    linear_drop_path,
    prepend,
    replace_masked,
    select_tokens,
    stem_projection,
)
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.intermediates import outputs_of
from passl.modeling.layers.norm import token_and_mean_norm
from passl.modeling.layers.relative_position import (
    QueryValueBiased,
    biased_attention,
    look_up_bias,
    relative_position_index,
)
from passl.utils.registry import BACKBONES

from .base import TokenBackbone

EXTRA_ROWS = 3  # of a table, behind the offsets: class to patch, patch to class, class to class


class BiasTable(nn.Layer):
    """A table of relative position biases that all blocks share.

    Args:
        window_size: rows and columns of patches.
        num_heads: columns of the table.
    """

    def __init__(self, window_size, num_heads):
        super().__init__()
        self.window_size = tuple(window_size)
        self.relative_position_bias_table = _table(self, self.window_size, num_heads)

    def forward(self, index: paddle.Tensor) -> paddle.Tensor:
        """Biases [..., H, N, N] of the rows ``index`` [..., N, N]."""
        return look_up_bias(self.relative_position_bias_table, index)


class BEiTAttention(QueryValueBiased):
    """softmax(q k^T / sqrt(d) + B) v; q and v have a bias, k has none.

    Args: those of :class:`QueryValueBiased`, and
        window_size: rows and columns of patches for a table of its own; None leaves the table out.
    Shape: x [B, N, D], bias [H, N, N] or [B, H, N, N] or None -> [B, N, D].
    """

    def __init__(self, dim, num_heads, window_size=None, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__(dim, num_heads, qkv_bias, attn_drop, proj_drop)
        self.window_size = window_size
        self.relative_position_bias_table = None if window_size is None else _table(self, window_size, num_heads)

    def forward(self, x: paddle.Tensor, bias: paddle.Tensor | None = None) -> paddle.Tensor:
        q, k, v = self.project(x)
        logits = paddle.matmul(q * self.head_dim**-0.5, k, transpose_y=True)  # [B, H, N, N]
        return self.proj_drop(self.proj(biased_attention(logits, v, bias, None, self.attn_drop)))


class BEiTBlock(nn.Layer):
    """x + gamma_1 attention(norm(x)), then x + gamma_2 mlp(norm(x)), with stochastic depth.

    Args:
        dim: token width.
        attn: attention layer.
        mlp_ratio: hidden width of the MLP over ``dim``.
        drop: dropout in the MLP, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
        init_values: initial gammas; None leaves them out.
        epsilon: of the LayerNorms.
    Shape: x [B, N, D], index [N, N] or [B, N, N], bias of all blocks or None -> [B, N, D].
    """

    def __init__(self, dim, attn, mlp_ratio, drop, drop_path, init_values, epsilon):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.attn = attn
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop=drop)
        self.drop_path = DropPath(drop_path)
        self.gamma_1 = self.gamma_2 = None
        if init_values is not None:
            initial = nn.initializer.Constant(init_values)
            self.gamma_1 = self.create_parameter([dim], default_initializer=initial)
            self.gamma_2 = self.create_parameter([dim], default_initializer=initial)

    def forward(self, x: paddle.Tensor, index: paddle.Tensor, bias: paddle.Tensor | None = None) -> paddle.Tensor:
        if self.attn.relative_position_bias_table is not None:
            bias = look_up_bias(self.attn.relative_position_bias_table, index)
        attended = self.attn(self.norm1(x), bias)
        x = x + self.drop_path(attended if self.gamma_1 is None else self.gamma_1 * attended)
        hidden = self.mlp(self.norm2(x))
        return x + self.drop_path(hidden if self.gamma_2 is None else self.gamma_2 * hidden)


@BACKBONES.register()
class BEiT(TokenBackbone):
    """BEiT's encoder, for pre-training on masked images and for what follows.

    Pre-training shares one table of biases between all blocks, fine-tuning gives each block its own;
    weights of the first load into the second.

    Args:
        img_size, patch_size, in_chans, embed_dim, depth, num_heads, mlp_ratio: see :class:`ViT`.
        qkv_bias: bias of q and v; k has none.
        init_values: initial LayerScale factor (0.1 for base, 1e-5 for large and v2); None leaves it out.
        rel_pos_bias: "block", a table of biases for each block; "shared", one for all; "none".
        abs_pos_embed: learned absolute positions for all tokens.
        global_pool: "avg" returns the mean of the patches, then its norm; "token" the normed class token.
        drop_rate, attn_drop_rate, epsilon: see :class:`ViT`.
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        use_mask_token: learn a token that stands for masked patches.
        stem: "linear" patches, or "hmlp" or "hmlp_ln", which reach them in three steps with BatchNorm or LayerNorm.
    Shape: images [B, C, H, W] -> [B, embed_dim].
    """

    num_prefix_tokens = 1

    def __init__(
        self, img_size=224, patch_size=16, in_chans=3, embed_dim=768, depth=12, num_heads=12, mlp_ratio=4.0,
        qkv_bias=True, init_values=0.1, rel_pos_bias="block", abs_pos_embed=False, global_pool="avg",
        drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0, epsilon=1e-6, use_mask_token=False,
        stem="linear",
    ):  # fmt: skip
        super().__init__()
        if rel_pos_bias not in ("block", "shared", "none"):
            raise ValueError(f"rel_pos_bias must be 'block', 'shared' or 'none', got {rel_pos_bias!r}")
        if global_pool not in ("avg", "token"):
            raise ValueError(f"global_pool must be 'avg' or 'token', got {global_pool!r}")
        self.num_features = embed_dim
        self.global_pool = global_pool
        proj = stem_projection(stem, patch_size, in_chans, embed_dim)
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim, proj=proj)
        grid, num_patches = self.patch_embed.grid_size, self.patch_embed.num_patches
        self.cls_token = self.create_parameter([1, 1, embed_dim])
        self.mask_token = self.create_parameter([1, 1, embed_dim]) if use_mask_token else None
        self.pos_embed = self.create_parameter([1, 1 + num_patches, embed_dim]) if abs_pos_embed else None
        self.pos_drop = nn.Dropout(drop_rate)
        self.rel_pos_bias = BiasTable(grid, num_heads) if rel_pos_bias == "shared" else None
        index = paddle.to_tensor(relative_position_index(grid, class_token=True))
        self.register_buffer("relative_position_index", index, persistable=False)
        window = grid if rel_pos_bias == "block" else None
        self.blocks = nn.LayerList(
            [
                BEiTBlock(
                    embed_dim,
                    BEiTAttention(embed_dim, num_heads, window, qkv_bias, attn_drop_rate, drop_rate),
                    *(mlp_ratio, drop_rate, rate, init_values, epsilon),
                )
                for rate in linear_drop_path(drop_path_rate, depth)
            ]
        )
        self.norm, self.fc_norm = token_and_mean_norm(embed_dim, epsilon, norm_mean=global_pool == "avg")
        self._init_weights()

    def _init_weights(self):
        """Truncated normal; what leaves block i, counted from 1, is divided by sqrt(2 i)."""
        self.apply(init_vit)
        self.patch_embed.apply(init_torch_conv)
        for parameter in (self.cls_token, self.mask_token, self.pos_embed):
            if parameter is not None:
                trunc_normal_(parameter)
        for i, block in enumerate(self.blocks, start=1):
            for layer in (block.attn.proj, block.mlp.fc2):
                trunc_normal_(layer.weight, 0.02 / math.sqrt(2 * i))

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The pooled, normed features [B, D]."""
        tokens = self.forward_features(images)
        return self.fc_norm(tokens[:, 0] if self.global_pool == "token" else tokens[:, 1:].mean(1))

    def forward_features(
        self, images: paddle.Tensor, keep: paddle.Tensor | None = None, mask: paddle.Tensor | None = None
    ) -> paddle.Tensor:
        """All tokens after the last block [B, 1 + N, D], class token first; normed unless pooling "avg".

        ``keep`` and ``mask`` are those of ``ViT.forward_features``.
        """
        return self.norm(self._run(images, [self.num_layers - 1], keep, mask)[0])

    def _run(self, images, indices, keep=None, mask=None):
        x, index = self._embed(images, keep, mask)
        bias = None if self.rel_pos_bias is None else self.rel_pos_bias(index)
        return outputs_of(self.blocks, x, indices, index, bias)

    def _embed(self, images, keep, mask):
        """Tokens that enter the first block, and the rows of the bias table for each pair of them."""
        x = self.patch_embed(images)  # [B, N, D]
        if mask is not None:
            x = replace_masked(x, mask, self.mask_token)
        x = prepend(self.cls_token, x)
        if self.pos_embed is not None:
            x = x + self.pos_embed
        index = self.relative_position_index
        if keep is not None:
            places = paddle.concat([paddle.zeros_like(keep[:, :1]), keep + 1], axis=1)  # [B, 1 + M]
            x = select_tokens(x, places)
            pairs = places.unsqueeze(2) * index.shape[0] + places.unsqueeze(1)  # [B, 1 + M, 1 + M]
            index = paddle.gather(index.flatten(), pairs.flatten()).reshape(pairs.shape)
        return self.pos_drop(x), index

    def adapt_weights(self, arrays: dict) -> dict:
        """Weights of the pre-training for a model with a table in each block and mean pooling.

        Every block starts from the shared table; the norm of the mean starts fresh, as the official
        fine-tuning has it, and that of the pre-training is left.
        """
        shared = arrays.get("rel_pos_bias.relative_position_bias_table")
        if shared is not None and self.rel_pos_bias is None:
            del arrays["rel_pos_bias.relative_position_bias_table"]
            for name, _ in self.named_parameters():
                if name.endswith("attn.relative_position_bias_table"):
                    arrays.setdefault(name, shared)
        if self.global_pool == "avg" and "norm.weight" in arrays and "fc_norm.weight" not in arrays:
            del arrays["norm.weight"], arrays["norm.bias"]
            arrays["fc_norm.weight"] = self.fc_norm.weight.numpy()
            arrays["fc_norm.bias"] = self.fc_norm.bias.numpy()
        return arrays

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        embeddings = ("cls_token", "mask_token", "pos_embed")
        names = {name for name, _ in self.named_parameters()}
        return {n for n in names if n in embeddings or n.endswith("relative_position_bias_table")}


def _table(layer, window_size, num_heads):
    """A table for all offsets within ``window_size`` and the class token, which starts at 0 as in the official code."""
    height, width = window_size
    shape = [(2 * height - 1) * (2 * width - 1) + EXTRA_ROWS, num_heads]
    return layer.create_parameter(shape, default_initializer=nn.initializer.Constant(0.0))
