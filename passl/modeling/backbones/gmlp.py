# SPDX-License-Identifier: Apache-2.0
"""gMLP: perceptrons whose hidden channels are gated by a linear layer along the patches.

Paper: Pay Attention to MLPs, NeurIPS 2021, https://arxiv.org/abs/2105.08050
"""

from __future__ import annotations

import paddle
from paddle import nn
from paddle.nn.initializer import Normal

from passl.modeling.layers import DropPath, Linear, linear_drop_path
from passl.modeling.layers.init import init_torch_conv, init_xavier, ones_
from passl.utils.registry import BACKBONES

from .patch_mlp import PatchMLP, over_patches


class SpatialGatingUnit(nn.Layer):
    """s(Z) = Z1 * (W norm(Z2) + b), Z1 and Z2 the halves of Z's channels, equations 2 to 4 of the paper.

    W starts at almost 0 and b at 1, so that the unit begins as the identity on Z1 and the block as a
    feed-forward layer for each patch.

    Args:
        dim: channels of Z, even.
        num_tokens: number of patches N; W is [N, N].
        epsilon: of the LayerNorm.
    Shape: [B, N, dim] -> [B, N, dim / 2].
    """

    def __init__(self, dim, num_tokens, epsilon=1e-5):
        super().__init__()
        if dim % 2:
            raise ValueError(f"the gated width must be even, to be split into halves, got {dim}")
        self.norm = nn.LayerNorm(dim // 2, epsilon=epsilon)
        self.proj = Linear(num_tokens, num_tokens)

    def init_weights(self) -> None:
        """Weights of the projection near 0, biases 1."""
        Normal(std=1e-6)(self.proj.weight)
        ones_(self.proj.bias)

    def forward(self, z: paddle.Tensor) -> paddle.Tensor:
        content, gate = z.chunk(2, axis=-1)
        return content * over_patches(self.proj, self.norm(gate))


class GatedMlp(nn.Layer):
    """Linear, GELU, spatial gating, Linear.

    Args:
        dim: input and output width.
        hidden_dim: width before the gate, which halves it.
        num_tokens: number of patches N.
        drop: dropout before the gate and after the output, in [0, 1).
    Shape: [B, N, dim] -> [B, N, dim].
    """

    def __init__(self, dim, hidden_dim, num_tokens, drop):
        super().__init__()
        self.fc1 = Linear(dim, hidden_dim)
        self.act = nn.GELU()
        self.gate = SpatialGatingUnit(hidden_dim, num_tokens)
        self.fc2 = Linear(hidden_dim // 2, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.drop(self.fc2(self.gate(self.drop(self.act(self.fc1(x))))))


class gMLPBlock(nn.Layer):
    """x + gated-mlp(norm(x)), the only kind of block.

    Args:
        dim, num_tokens: token width and number of patches N.
        mlp_ratio: hidden width before the gate over ``dim``.
        drop, drop_path: dropout in the perceptron and stochastic depth, in [0, 1).
        epsilon: of the LayerNorm.
    Shape: [B, N, dim] -> [B, N, dim].
    """

    def __init__(self, dim, num_tokens, mlp_ratio, drop, drop_path, epsilon):
        super().__init__()
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp_channels = GatedMlp(dim, int(dim * mlp_ratio), num_tokens, drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return x + self.drop_path(self.mlp_channels(self.norm(x)))


@BACKBONES.register()
class gMLP(PatchMLP):
    """MLPs with gating.

    Args:
        img_size, patch_size, in_chans, embed_dim, depth: see :class:`PatchMLP`.
        mlp_ratio: hidden width before the gate over ``embed_dim``.
        drop_rate: dropout in the perceptrons, in [0, 1).
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        epsilon: of the blocks' and the last LayerNorm; the gates' have 1e-5, as in timm.
    Shape: images [B, C, H, W] -> [B, embed_dim].
    """

    def __init__(
        self, img_size=224, patch_size=16, in_chans=3, embed_dim=256, depth=30, mlp_ratio=6.0, drop_rate=0.0,
        drop_path_rate=0.0, epsilon=1e-6,
    ):  # fmt: skip
        rates = linear_drop_path(drop_path_rate, depth)

        def block(i, num_tokens):
            return gMLPBlock(embed_dim, num_tokens, mlp_ratio, drop_rate, rates[i], epsilon)

        norm = nn.LayerNorm(embed_dim, epsilon=epsilon)
        super().__init__(img_size, patch_size, in_chans, embed_dim, block, depth, norm)
        self.apply(init_xavier)
        init_torch_conv(self.stem.proj)
        for gated in self.blocks:
            gated.mlp_channels.gate.init_weights()
