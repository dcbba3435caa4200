# SPDX-License-Identifier: Apache-2.0
"""EfficientNet: inverted residuals whose width, depth and image size grow together, and its Lite variants.

Paper: EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019,
https://arxiv.org/abs/1905.11946
Lite: https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite

State names are timm's.
"""

from __future__ import annotations

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import DropPath, SqueezeExcitation, linear_drop_path
from passl.utils.registry import BACKBONES

from .base import StagedBackbone

STEM_WIDTH, HEAD_WIDTH = 32, 1280
EXCITATION = ("conv_reduce", "conv_expand")  # timm's names
# Table 1 of the paper: expansion, side of the kernel, stride of the first block, width, number of blocks.
STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


class MBConv(nn.Layer):
    """The mobile inverted bottleneck: widen by a 1x1 convolution, mix places by a depthwise one, narrow by a 1x1.

    Paper: MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018, https://arxiv.org/abs/1801.04381

    The narrow ends have no activation, and where they agree in shape a shortcut joins them.  A block with expansion 1
    does not widen; timm then calls what remains ``conv_dw, bn1, se, conv_pw, bn2``.

    Args:
        in_chans, dim: channels of the input and of the output.
        expansion: inner channels over ``in_chans``.
        kernel: side of the depthwise kernel, odd.
        stride: of the depthwise convolution.
        lite, padding, epsilon: see :class:`EfficientNet`.
        drop_path: stochastic depth rate, in [0, 1).
    Shape: [B, in_chans, h, w] -> [B, dim, h / stride, w / stride], rounded up.
    """

    def __init__(self, in_chans, dim, expansion, kernel, stride, lite, padding, epsilon, drop_path):
        super().__init__()
        inner = in_chans * expansion
        self.widens = expansion != 1
        if self.widens:
            self.conv_pw = _conv(in_chans, inner)
            self.bn1 = nn.BatchNorm2D(inner, epsilon=epsilon)
        self.conv_dw = _conv(inner, inner, kernel, stride, padding, groups=inner)
        self.add_sublayer("bn2" if self.widens else "bn1", nn.BatchNorm2D(inner, epsilon=epsilon))
        self.se = (
            nn.Identity() if lite else SqueezeExcitation(inner, in_chans // 4, F.silu, ("conv_reduce", "conv_expand"))
        )
        self.add_sublayer("conv_pwl" if self.widens else "conv_pw", _conv(inner, dim))
        self.add_sublayer("bn3" if self.widens else "bn2", nn.BatchNorm2D(dim, epsilon=epsilon))
        self.act = _activation(lite)
        self.has_shortcut = stride == 1 and in_chans == dim
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        if self.widens:
            branch = self.act(self.bn1(self.conv_pw(x)))
            branch = self.act(self.bn2(self.conv_dw(branch)))
            branch = self.bn3(self.conv_pwl(self.se(branch)))
        else:
            branch = self.act(self.bn1(self.conv_dw(x)))
            branch = self.bn2(self.conv_pw(self.se(branch)))
        return x + self.drop_path(branch) if self.has_shortcut else branch


@BACKBONES.register()
class EfficientNet(StagedBackbone):
    """EfficientNet B0 to B7, and with ``lite=True`` EfficientNet-Lite.

    ``forward_intermediates`` counts the paper's seven stages of blocks, whose maps have a 2nd, 4th, 8th, 16th, 16th,
    32nd and 32nd of the image's sides, and as an eighth the last convolution.  As in timm, a step moves the norms'
    running statistics by a tenth; in the official code it is a hundredth.

    Args:
        in_chans: input channels.
        width_factor, depth_factor: of the compound scaling, on B0's channels and blocks, positive.
        lite: ReLU6 instead of SiLU, no squeeze-and-excitation, and the stem, the last convolution and the number of
            blocks in the first and last stage are B0's whatever the factors are.
        padding: of the strided convolutions, ``"symmetric"`` or ``"same"``, TensorFlow's rule, which pads an even
            side more at its end; Google's weights, ``tf_efficientnet_*`` in timm, need it.
        epsilon: of the norms; Google's weights need 1e-3.
        drop_path_rate: stochastic depth in [0, 1); block i of n has i / n of it, so that the last one has less.
    Shape: images [B, C, H, W] -> [B, D], D = 1280 for B0; the last map has a 32nd of H and W, rounded up.
    Raises:
        ValueError: another padding, or a factor that is not positive.
    """

    def __init__(
        self, in_chans=3, width_factor=1.0, depth_factor=1.0, lite=False, padding="symmetric", epsilon=1e-5,
        drop_path_rate=0.0,
    ):  # fmt: skip
        super().__init__()
        if padding not in ("symmetric", "same"):
            raise ValueError(f"padding must be 'symmetric' or 'same', got {padding!r}")
        if width_factor <= 0 or depth_factor <= 0:
            raise ValueError(
                f"width_factor (={width_factor}) and depth_factor (={depth_factor}) must be positive; B0 has 1.0 both"
            )
        self.depths = stage_depths(depth_factor, lite)
        stem, self.num_features = (
            width if lite else scaled_width(width, width_factor) for width in (STEM_WIDTH, HEAD_WIDTH)
        )
        self.conv_stem = _conv(in_chans, stem, 3, 2, padding)
        self.bn1 = nn.BatchNorm2D(stem, epsilon=epsilon)
        rates = iter(linear_drop_path(drop_path_rate, self.num_layers + 1))  # of one block more than there are
        self.blocks, in_chans = nn.LayerList(), stem
        for (expansion, kernel, stride, width, _), depth in zip(STAGES, self.depths):
            dim, stage = scaled_width(width, width_factor), []
            for i in range(depth):
                step = 1 if i else stride
                stage.append(MBConv(in_chans, dim, expansion, kernel, step, lite, padding, epsilon, next(rates)))
                in_chans = dim
            self.blocks.append(nn.Sequential(*stage))
        self.conv_head = _conv(in_chans, self.num_features)
        self.bn2 = nn.BatchNorm2D(self.num_features, epsilon=epsilon)
        self.act = _activation(lite)
        self.apply(_init_weights)

    def _enter(self, images):
        return self.act(self.bn1(self.conv_stem(images)))

    def _stages(self):
        """The seven stages of blocks, and as an eighth the convolution that widens the last map."""
        return [*self.blocks, self._widen]

    def _widen(self, x):
        return self.act(self.bn2(self.conv_head(x)))

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the stem, i + 1 for block i, num_layers + 1 for the widening."""
        part, _, rest = name.partition(".")
        if part == "blocks":
            return self._depth(*rest.split(".")[:2])
        return self.num_layers + 1 if part in ("conv_head", "bn2") else 0


def scaled_width(width: int, factor: float) -> int:
    """The multiple of 8 nearest to ``factor * width``, or the next larger one where that loses more than a tenth."""
    wanted = factor * width
    nearest = max(8, int(wanted / 8 + 0.5) * 8)
    return nearest if nearest >= 0.9 * wanted else nearest + 8


def stage_depths(factor: float, lite: bool = False) -> list[int]:
    """Number of blocks of each stage, rounded up; Lite does not scale its first and last stage."""
    depths = [math.ceil(factor * count) for *_, count in STAGES]
    if lite:
        depths[0], depths[-1] = STAGES[0][-1], STAGES[-1][-1]
    return depths


def _conv(in_chans, out_chans, kernel=1, stride=1, padding="symmetric", groups=1):
    pad = "SAME" if padding == "same" and stride > 1 else kernel // 2  # they agree where nothing is strided
    return nn.Conv2D(in_chans, out_chans, kernel, stride=stride, padding=pad, groups=groups, bias_attr=False)


def _activation(lite):
    return nn.ReLU6() if lite else nn.Silu()


def _init_weights(layer):
    """He's normal rule on the outgoing side; a depthwise convolution counts the side of one group."""
    if isinstance(layer, nn.Conv2D):
        out_chans, _, height, width = layer.weight.shape
        std = math.sqrt(2.0 * layer._groups / (out_chans * height * width))
        nn.initializer.Normal(0.0, std)(layer.weight)
