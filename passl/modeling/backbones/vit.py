# SPDX-License-Identifier: Apache-2.0
"""ViT, the plain transformer on image patches; with its options also DeiT, DeiT III, DINOv2 and CLIP's image tower.

Paper: An Image is Worth 16x16 Words, ICLR 2021, https://arxiv.org/abs/2010.11929
DeiT: Training data-efficient image transformers, ICML 2021, https://arxiv.org/abs/2012.12877
Parallel branches: Three things everyone should know about Vision Transformers, ECCV 2022,
https://arxiv.org/abs/2203.09795
Register tokens: Vision Transformers Need Registers, ICLR 2024, https://arxiv.org/abs/2309.16588

State names are timm's.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import paddle
from paddle import nn
from paddle.nn.initializer import Normal

from passl.modeling.layers import (
    Block,
    Mlp,
    ParallelBlock,
    PatchEmbed,
    QuickGELU,
    SwiGLU,
    linear_drop_path,
    prepend,
    replace_masked,
    resize_pos_embed,
    select_tokens,
    sincos_2d,
    stem_projection,
)
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.norm import token_and_mean_norm
from passl.utils.registry import BACKBONES

from .base import TokenBackbone

MLPS = {"gelu": Mlp, "quick_gelu": partial(Mlp, act=QuickGELU), "swiglu": SwiGLU}


@BACKBONES.register()
class ViT(TokenBackbone):
    """Vision Transformer: patch tokens, optional class and register tokens, pre-norm blocks, one pooled vector.

    Args:
        img_size: height and width in pixels, one number or a pair.
        patch_size: side of a patch in pixels.
        in_chans: input channels.
        embed_dim: token width D.
        depth: number of blocks.
        num_heads: heads of every block.
        mlp_ratio: hidden width of the MLPs over ``embed_dim``.
        qkv_bias: bias of the q, k, v projections.
        class_token: whether a learned token stands before the patches.
        num_register_tokens: learned tokens between the class token and the patches that no output uses.
        pos_embed: "learned" positions, or MAE's fixed "sincos" table, which is a buffer.
        no_embed_class: positions for patches only (DeiT III, DINOv2 with registers), not for the prefix tokens.
        pre_norm: LayerNorm before the blocks and no bias in the patch embedding (CLIP).
        init_values: initial LayerScale factor (DeiT III, DINOv2); None leaves LayerScale out.
        global_pool: "token" returns the class token after the final norm, with ``distilled`` both tokens; "avg" the
            mean of the patches, then its norm.
        drop_rate: dropout after position embedding, projections and MLPs, in [0, 1).
        attn_drop_rate: dropout on attention weights, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1) of the last block; the others follow ``drop_path_rule``.
        drop_path_rule: "linear" from 0 in the first block, or "constant" (DeiT III).
        epsilon: of the LayerNorms.
        act: "gelu" (exact), "quick_gelu" (OpenAI's CLIP) or "swiglu", which gates the MLP (DINOv2's giant).
        use_mask_token: learn a token that stands for masked patches (SimMIM, BEiT, iBOT).
        dynamic_img_size: accept other image sizes and resize the learned positions to them (DINO's local crops).
        distilled: a second learned token behind the class token, which a teacher trains (distilled DeiT).
        num_branches: attentions, and MLPs, that stand side by side in every block.
        stem: "linear" patches, or "hmlp" or "hmlp_ln", which reach them in three steps with BatchNorm or LayerNorm.
    Shape: images [B, C, H, W] -> [B, embed_dim], or [B, 2, embed_dim] with ``distilled``.
    """

    def __init__(
        self, img_size=224, patch_size=16, in_chans=3, embed_dim=768, depth=12, num_heads=12, mlp_ratio=4.0,
        qkv_bias=True, class_token=True, num_register_tokens=0, pos_embed="learned", no_embed_class=False,
        pre_norm=False, init_values=None, global_pool="token", drop_rate=0.0, attn_drop_rate=0.0,
        drop_path_rate=0.0, drop_path_rule="linear", epsilon=1e-6, act="gelu", use_mask_token=False,
        dynamic_img_size=False, distilled=False, num_branches=1, stem="linear",
    ):  # fmt: skip
        super().__init__()
        _check_choice("pos_embed", pos_embed, ("learned", "sincos"))
        _check_choice("global_pool", global_pool, ("token", "avg"))
        _check_choice("drop_path_rule", drop_path_rule, ("linear", "constant"))
        _check_choice("act", act, tuple(MLPS))
        if global_pool == "token" and not class_token:
            raise ValueError("global_pool 'token' needs class_token=True; without a class token use global_pool='avg'")
        if distilled and global_pool != "token":
            raise ValueError(f"distilled=True returns two tokens: use global_pool='token', got {global_pool!r}")
        self.num_features = embed_dim
        self.num_prefix_tokens = int(class_token) + int(distilled) + num_register_tokens
        self.global_pool = global_pool
        self.no_embed_class = no_embed_class
        proj = stem_projection(stem, patch_size, in_chans, embed_dim)
        self.patch_embed = PatchEmbed(
            img_size, patch_size, in_chans, embed_dim, bias=not pre_norm, any_size=dynamic_img_size, proj=proj
        )
        self.cls_token = self.create_parameter([1, 1, embed_dim]) if class_token else None
        self.dist_token = self.create_parameter([1, 1, embed_dim]) if distilled else None
        self.reg_token = self.create_parameter([1, num_register_tokens, embed_dim]) if num_register_tokens else None
        self.mask_token = self.create_parameter([1, 1, embed_dim]) if use_mask_token else None
        num_prefix_positions = 0 if no_embed_class else self.num_prefix_tokens
        if pos_embed == "learned":
            num_positions = num_prefix_positions + self.patch_embed.num_patches
            self.pos_embed = self.create_parameter([1, num_positions, embed_dim])
        else:
            table = sincos_2d(embed_dim, self.patch_embed.grid_size)
            table = np.concatenate([np.zeros([num_prefix_positions, embed_dim], "float32"), table])
            self.register_buffer("pos_embed", paddle.to_tensor(table).unsqueeze(0))
        self.pos_drop = nn.Dropout(drop_rate)
        self.norm_pre = nn.LayerNorm(embed_dim, epsilon=epsilon) if pre_norm else nn.Identity()
        rates = linear_drop_path(drop_path_rate, depth) if drop_path_rule == "linear" else [drop_path_rate] * depth
        block = Block if num_branches == 1 else partial(ParallelBlock, num_branches)
        self.blocks = nn.LayerList(
            [
                block(
                    embed_dim,
                    num_heads,
                    mlp_ratio,
                    qkv_bias,
                    drop_rate,
                    attn_drop_rate,
                    rate,
                    init_values,
                    epsilon,
                    MLPS[act],
                )
                for rate in rates
            ]
        )
        self.norm, self.fc_norm = token_and_mean_norm(embed_dim, epsilon, norm_mean=global_pool == "avg")
        self._init_weights()

    def _init_weights(self):
        self.apply(init_vit)
        self.patch_embed.apply(init_torch_conv)
        if not self.pos_embed.stop_gradient:
            trunc_normal_(self.pos_embed)
        for token in (self.cls_token, self.reg_token):
            if token is not None:
                Normal(std=1e-6)(token)
        for token in (self.dist_token, self.mask_token):
            if token is not None:
                trunc_normal_(token)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The pooled, normed features [B, D]; class and distillation token [B, 2, D] with ``distilled``."""
        if self.global_pool == "avg":
            return self.fc_norm(self.forward_features(images)[:, self.num_prefix_tokens :].mean(1))
        x = self._embed(images)
        for block in self.blocks[:-1]:
            x = block(x)
        # the last block serves the tokens of the output alone
        if self.dist_token is not None:
            return self.norm(self.blocks[-1](x, num_queries=2))
        return self.norm(self.blocks[-1](x, num_queries=1)[:, 0])

    def forward_features(
        self, images: paddle.Tensor, keep: paddle.Tensor | None = None, mask: paddle.Tensor | None = None
    ) -> paddle.Tensor:
        """All tokens after the last block [B, P + N, D], class token first; normed unless pooling "avg".

        Args:
            keep: [B, M] indices of the patches to encode; the others are left out and N becomes M.
            mask: [B, N] bool, true for the patches that the mask token replaces.
        """
        x = self._embed(images, keep, mask)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def _embed(self, images, keep=None, mask=None):
        """Tokens that enter the first block, [B, P + N, D]."""
        x = self.patch_embed(images)  # [B, N, D]
        if mask is not None:
            x = replace_masked(x, mask, self.mask_token)
        num_prefix_positions = 0 if self.no_embed_class else self.num_prefix_tokens
        positions = resize_pos_embed(
            self.pos_embed, self.patch_embed.grid_size, self.patch_embed.grid_of(images), num_prefix_positions
        )
        x = x + positions[:, num_prefix_positions:]
        if keep is not None:
            x = select_tokens(x, keep)  # [B, M, D]
        prefix = [token for token in (self.cls_token, self.dist_token, self.reg_token) if token is not None]
        if prefix:
            prefix = paddle.concat(prefix, axis=1)  # [1, P, D]
            if not self.no_embed_class:
                prefix = prefix + positions[:, :num_prefix_positions]
            x = prepend(prefix, x)  # [B, P + N, D]
        return self.norm_pre(self.pos_drop(x))

    def _grid(self, images):
        return self.patch_embed.grid_of(images)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        names = {"pos_embed", "cls_token", "dist_token", "reg_token", "mask_token"}
        return {name for name, _ in self.named_parameters() if name in names}


def _check_choice(key, value, known):
    if value not in known:
        raise ValueError(f"{key} must be one of {', '.join(map(repr, known))}, got {value!r}")
