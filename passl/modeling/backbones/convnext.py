# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt: a residual network of depthwise 7x7 convolutions and perceptrons at each place.

Paper: A ConvNet for the 2020s, CVPR 2022, https://arxiv.org/abs/2201.03545
V2: Co-designing and Scaling ConvNets with Masked Autoencoders, CVPR 2023, https://arxiv.org/abs/2301.00808

State names are timm's, but that its classifier's norm, ``head.norm``, is the backbone's ``norm`` here.
"""

from __future__ import annotations

from collections.abc import Sequence

import paddle
from paddle import nn

from passl.modeling.layers import DropPath, LayerNorm2d, Mlp, linear_drop_path
from passl.modeling.layers.init import trunc_normal_, zeros_
from passl.utils.registry import BACKBONES

from .base import StagedBackbone

_GROUP = 3  # blocks of the third stage that share a depth in layer-wise decay


class GlobalResponseNorm(nn.Layer):
    """Lets the channels of a map compete: X + weight * (X * N) + bias, equations 1 to 3 of ConvNeXt V2.

    N_c = G_c / mean_c(G), where G_c is the L2 norm of channel c over all places.  Weight and bias start
    at 0, so that the layer begins as the identity.

    Args:
        dim: number of channels C (last axis).
        epsilon: added to the mean of the norms.
    Shape: [B, h, w, C], unchanged.
    """

    def __init__(self, dim: int, epsilon: float = 1e-6):
        super().__init__()
        self._epsilon = epsilon
        self.weight = self.create_parameter([dim], default_initializer=zeros_)
        self.bias = self.create_parameter([dim], default_initializer=zeros_)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        energy = x.astype("float32").square().sum([1, 2], keepdim=True)  # [B, 1, 1, C]
        response = (energy + 1e-20).sqrt()  # the tiny number keeps the gradient of an empty channel finite
        relative = response / (response.mean(-1, keepdim=True) + self._epsilon)
        return x * (1.0 + self.weight * relative.astype(x.dtype)) + self.bias


class ResponseNormMlp(Mlp):
    """The perceptron of V2: a global response norm stands between activation and second layer.

    Args:
        dim: input and output width.
        hidden_dim: inner width.
    Shape: [B, h, w, dim], unchanged.
    """

    def __init__(self, dim, hidden_dim):
        super().__init__(dim, hidden_dim)
        self.grn = GlobalResponseNorm(hidden_dim)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.fc2(self.grn(self.act(self.fc1(x))))


class ConvNeXtBlock(nn.Layer):
    """x + gamma * mlp(norm(conv_dw(x))): places are mixed by the convolution, channels by the perceptron.

    Args:
        dim: channels.
        drop_path: stochastic depth rate, in [0, 1).
        init_values: initial LayerScale factor gamma; None leaves LayerScale out.
        use_grn: global response norm in the perceptron.
        epsilon: of the LayerNorm.
    Shape: [B, dim, h, w], unchanged.
    """

    def __init__(self, dim, drop_path, init_values, use_grn, epsilon):
        super().__init__()
        self.conv_dw = nn.Conv2D(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = ResponseNormMlp(dim, 4 * dim) if use_grn else Mlp(dim, 4 * dim)
        self.gamma = None
        if init_values is not None:
            initial = nn.initializer.Constant(init_values)
            self.gamma = self.create_parameter([dim], default_initializer=initial)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        branch = self.conv_dw(x).transpose([0, 2, 3, 1])  # [B, h, w, C]
        branch = self.mlp(self.norm(branch))
        if self.gamma is not None:
            branch = self.gamma * branch
        return x + self.drop_path(branch.transpose([0, 3, 1, 2]))


class ConvNeXtStage(nn.Layer):
    """Blocks of one width, and before them, where the width changes, a norm and a 2x2 convolution that halves the map.

    Args:
        in_chans, dim: channels of the input and of the stage.
        drop_paths: one rate for each block.
        init_values, use_grn, epsilon: see :class:`ConvNeXtBlock`.
    Shape: [B, in_chans, h, w] -> [B, dim, h / 2, w / 2]; h and w stay in the first stage.
    """

    def __init__(self, in_chans, dim, drop_paths, init_values, use_grn, epsilon):
        super().__init__()
        self.downsample = nn.Identity()
        if in_chans != dim:
            self.downsample = nn.Sequential(LayerNorm2d(in_chans, epsilon), nn.Conv2D(in_chans, dim, 2, stride=2))
        self.blocks = nn.Sequential(*[ConvNeXtBlock(dim, rate, init_values, use_grn, epsilon) for rate in drop_paths])

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return self.blocks(self.downsample(x))


@BACKBONES.register()
class ConvNeXt(StagedBackbone):
    """ConvNeXt, and with ``use_grn=True, init_values=None`` ConvNeXt V2.

    Args:
        in_chans: input channels.
        depths: number of blocks of each of the four stages.
        dims: channels of each stage, all different.
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        init_values: initial LayerScale factor (V1); None leaves LayerScale out.
        use_grn: global response norm in every perceptron (V2).
        epsilon: of the LayerNorms.
    Shape: images [B, C, H, W] -> [B, dims[3]]; the last map has a 32nd of H and W.
    """

    def __init__(
        self, in_chans=3, depths: Sequence[int] = (3, 3, 9, 3), dims: Sequence[int] = (96, 192, 384, 768),
        drop_path_rate=0.0, init_values: float | None = 1e-6, use_grn=False, epsilon=1e-6,
    ):  # fmt: skip
        super().__init__()
        if len(depths) != 4 or len(dims) != 4 or len(set(dims)) != 4:
            raise ValueError(f"depths and dims must give 4 numbers, dims all different, got {depths} and {dims}")
        self.num_features, self.depths = dims[-1], tuple(depths)
        self.stem = nn.Sequential(nn.Conv2D(in_chans, dims[0], 4, stride=4), LayerNorm2d(dims[0], epsilon))
        rates = iter(linear_drop_path(drop_path_rate, sum(depths)))
        self.stages = nn.LayerList()
        for before, dim, depth in zip((dims[0], *dims[:-1]), dims, depths):
            drop_paths = [next(rates) for _ in range(depth)]
            self.stages.append(ConvNeXtStage(before, dim, drop_paths, init_values, use_grn, epsilon))
        self.norm = nn.LayerNorm(self.num_features, epsilon=epsilon)
        self.apply(_init_weights)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The norm of the last map's mean, [B, D]."""
        return self.norm(self.forward_features(images).mean([2, 3]))

    def _enter(self, images):
        return self.stem(images)

    @property
    def num_layers(self) -> int:
        """Depths for layer-wise decay: a stage each, but in the third a group of three blocks each (12 for S to XL)."""
        return 3 + -(-self.depths[2] // _GROUP)

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the stem, num_layers + 1 for the last norm.

        As in the authors' fine-tuning, except that models with a short third stage count on without a gap.
        """
        part, _, rest = name.partition(".")
        if part != "stages":
            return self.num_layers + 1 if part == "norm" else 0
        stage, kind, place = rest.split(".")[:3]
        if stage == "3":
            return self.num_layers
        return int(stage) + 1 + (int(place) // _GROUP if stage == "2" and kind == "blocks" else 0)


def _init_weights(layer):
    if isinstance(layer, (nn.Conv2D, nn.Linear)):
        trunc_normal_(layer.weight)
        zeros_(layer.bias)
