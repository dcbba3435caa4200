# SPDX-License-Identifier: Apache-2.0
"""RegNetY: a residual network whose widths follow one line, with squeeze-and-excitation.

Paper: Designing Network Design Spaces, CVPR 2020, https://arxiv.org/abs/2003.13678
Squeeze-and-excitation: Squeeze-and-Excitation Networks, CVPR 2018, https://arxiv.org/abs/1709.01507

State names are timm's.
"""

from __future__ import annotations

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import DropPath, SqueezeExcitation, linear_drop_path
from passl.modeling.layers.conv_norm import ConvNorm
from passl.modeling.layers.init import init_kaiming, zeros_
from passl.utils.registry import BACKBONES

from .base import StagedBackbone

STEM_WIDTH = 32


class RegNetBlock(nn.Layer):
    """The Y block: 1x1, grouped 3x3, squeeze-and-excitation, 1x1, beside a shortcut; no bottleneck.

    Args:
        in_chans, dim: channels of the input and of all that follows.
        stride: of the 3x3 convolution and of the shortcut.
        group_width: channels of one group.
        se_ratio: hidden width of the excitation over ``in_chans``.
        drop_path: stochastic depth rate, in [0, 1).
    Shape: [B, in_chans, h, w] -> [B, dim, h / stride, w / stride].
    """

    def __init__(self, in_chans, dim, stride, group_width, se_ratio, drop_path):
        super().__init__()
        self.conv1 = ConvNorm(in_chans, dim)
        self.conv2 = ConvNorm(dim, dim, 3, stride, dim // group_width)
        self.se = SqueezeExcitation(dim, round(in_chans * se_ratio))
        self.conv3 = ConvNorm(dim, dim)
        same = in_chans == dim and stride == 1
        self.downsample = nn.Identity() if same else ConvNorm(in_chans, dim, stride=stride)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        branch = F.relu(self.conv2(F.relu(self.conv1(x))))
        branch = self.conv3(self.se(branch))
        return F.relu(self.drop_path(branch) + self.downsample(x))


@BACKBONES.register()
class RegNetY(StagedBackbone):
    """RegNetY, described by the five numbers of the paper's design space.

    Args:
        in_chans: input channels.
        depth: number of blocks d.
        initial_width: w_0, divisible by 8.
        slope: w_a, growth of the width from block to block.
        quantization: w_m > 1, ratio of the widths of neighbouring stages.
        group_width: g, channels of one group of the 3x3 convolutions.
        se_ratio: hidden width of the excitation over a block's input channels.
        drop_path_rate: stochastic depth in [0, 1) of the last block; rises linearly from 0 in the first.
        zero_init_residual: start each block's last norm at 0, so that blocks begin as identities.
    Shape: images [B, C, H, W] -> [B, D], D the width of the last stage; its map has a 32nd of H and W.
    """

    def __init__(
        self, in_chans=3, depth=27, initial_width=48, slope=20.71, quantization=2.65, group_width=24,
        se_ratio=0.25, drop_path_rate=0.0, zero_init_residual=False,
    ):  # fmt: skip
        super().__init__()
        stages = stage_plan(depth, initial_width, slope, quantization, group_width)
        self.depths = [count for _, count in stages]
        self.num_features = stages[-1][0]
        self.stem = ConvNorm(in_chans, STEM_WIDTH, 3, stride=2)
        rates = iter(linear_drop_path(drop_path_rate, depth))
        in_chans = STEM_WIDTH
        for stage, (dim, count) in enumerate(stages):
            blocks = nn.Sequential()
            for i in range(count):
                block = RegNetBlock(in_chans, dim, 1 if i else 2, min(group_width, dim), se_ratio, next(rates))
                blocks.add_sublayer(f"b{i + 1}", block)
                in_chans = dim
            self.add_sublayer(f"s{stage + 1}", blocks)

        self.apply(init_kaiming)
        for layer in self.sublayers():
            if zero_init_residual and isinstance(layer, RegNetBlock):
                zeros_(layer.conv3.bn.weight)

    def _enter(self, images):
        return F.relu(self.stem(images))

    def _stages(self):
        return [getattr(self, f"s{i + 1}") for i in range(len(self.depths))]

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the stem, i + 1 for block i, counted through the stages."""
        stage, block = name.split(".")[:2]
        if stage == "stem":
            return 0
        return self._depth(int(stage[1:]) - 1, int(block[1:]) - 1)


def stage_plan(depth, initial_width, slope, quantization, group_width) -> list[tuple[int, int]]:
    """(width, number of blocks) of each stage: equations 2 to 4 of the paper.

    The width of block j lies on the line u_j = w_0 + w_a j.  It is moved to the nearest power, w_0 w_m^s with a
    whole s, then to a multiple of 8; blocks of equal width are a stage.  Last, the groups must divide the width.
    """
    if slope < 0 or initial_width <= 0 or quantization <= 1 or initial_width % 8:
        raise ValueError(
            f"initial_width (={initial_width}) must be a positive multiple of 8, slope (={slope}) not negative "
            f"and quantization (={quantization}) larger than 1"
        )
    counts: dict[int, int] = {}
    for j in range(depth):
        power = round(math.log((initial_width + slope * j) / initial_width) / math.log(quantization))
        width = 8 * round(initial_width * quantization**power / 8)
        counts[width] = counts.get(width, 0) + 1
    return [(group * round(width / group), n) for width, n in counts.items() for group in [min(group_width, width)]]
