# SPDX-License-Identifier: Apache-2.0
"""ResMLP: a linear layer along the patches and a perceptron along the channels, without any statistics.

Paper: ResMLP: Feedforward networks for image classification with data-efficient training, 2021,
https://arxiv.org/abs/2105.03404
"""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers import DropPath, Linear, Mlp
from passl.modeling.layers.init import init_torch_conv, init_vit, ones_, zeros_
from passl.utils.registry import BACKBONES

from .patch_mlp import PatchMLP, over_patches


class Affine(nn.Layer):
    """Aff(x) = alpha * x + beta for each channel, equation 1 of the paper; stands where others have a LayerNorm.

    Args:
        dim: number of channels (last axis).
    """

    def __init__(self, dim: int):
        super().__init__()
        self.alpha = self.create_parameter([1, 1, dim], default_initializer=ones_)
        self.beta = self.create_parameter([1, 1, dim], default_initializer=zeros_)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.alpha * x + self.beta


class ResMLPBlock(nn.Layer):
    """Z = X + ls1 * (A Aff(X)), Y = Z + ls2 * mlp(Aff(Z)), equations 2 and 3 of the paper.

    Args:
        dim: token width.
        num_tokens: number of patches N; A is [N, N] with a bias.
        mlp_ratio: hidden width of the perceptron over ``dim``.
        drop: dropout in the perceptron, in [0, 1).
        drop_path: stochastic depth rate, in [0, 1).
        init_scale: initial LayerScale factor.
    Shape: [B, N, dim] -> [B, N, dim].
    """

    def __init__(self, dim, num_tokens, mlp_ratio, drop, drop_path, init_scale):
        super().__init__()
        initial = nn.initializer.Constant(init_scale)
        self.ls1 = self.create_parameter([dim], default_initializer=initial)
        self.ls2 = self.create_parameter([dim], default_initializer=initial)
        self.norm1 = Affine(dim)
        self.linear_tokens = Linear(num_tokens, num_tokens)
        self.norm2 = Affine(dim)
        self.mlp_channels = Mlp(dim, int(dim * mlp_ratio), drop=drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self.drop_path(self.ls1 * over_patches(self.linear_tokens, self.norm1(x)))
        return x + self.drop_path(self.ls2 * self.mlp_channels(self.norm2(x)))


@BACKBONES.register()
class ResMLP(PatchMLP):
    """Residual multi-layer perceptrons.

    Args:
        img_size, patch_size, in_chans, embed_dim, depth: see :class:`PatchMLP`.
        mlp_ratio: hidden width of the perceptrons over ``embed_dim``.
        init_scale: initial LayerScale factor (0.1 for 12 blocks, 1e-5 for 24, 1e-6 for 36 and the wide model).
        drop_rate: dropout in the perceptrons, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1), the same in every block.
    Shape: images [B, C, H, W] -> [B, embed_dim].
    """

    def __init__(
        self, img_size=224, patch_size=16, in_chans=3, embed_dim=384, depth=12, mlp_ratio=4.0, init_scale=1e-4,
        drop_rate=0.0, drop_path_rate=0.0,
    ):  # fmt: skip
        def block(_, num_tokens):
            return ResMLPBlock(embed_dim, num_tokens, mlp_ratio, drop_rate, drop_path_rate, init_scale)

        super().__init__(img_size, patch_size, in_chans, embed_dim, block, depth, Affine(embed_dim))
        self.apply(init_vit)
        init_torch_conv(self.stem.proj)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis: scales and offsets."""
        return {name for name, _ in self.named_parameters() if name.endswith((".alpha", ".beta"))}
