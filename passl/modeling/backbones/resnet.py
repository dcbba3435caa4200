# SPDX-License-Identifier: Apache-2.0
"""Residual networks, in the v1.5 form: a bottleneck strides in its 3x3 convolution.

Paper: Deep Residual Learning for Image Recognition, CVPR 2016, https://arxiv.org/abs/1512.03385
The paper strides in the first 1x1; everybody's weights since 2017 do not.

State names are torchvision's.
"""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers.init import init_kaiming, zeros_
from passl.utils.registry import BACKBONES

from .base import StagedBackbone


class BasicBlock(nn.Layer):
    """Two 3x3 convolutions beside a shortcut.

    Args:
        in_chans: input channels.
        planes: output channels.
        stride: of the first convolution and of the shortcut.
        groups, base_width: only 1 and 64, there is nothing to split or widen.
    Shape: [B, in_chans, H, W] -> [B, planes, H / stride, W / stride].
    """

    expansion = 1

    def __init__(self, in_chans, planes, stride=1, groups=1, base_width=64):
        super().__init__()
        if groups != 1 or base_width != 64:
            raise ValueError(
                f"groups (={groups}) and base_width (={base_width}) change bottlenecks only: use depth 50, 101 or 152"
            )
        self.downsample = _shortcut(in_chans, planes, stride)
        self.conv1 = _conv(in_chans, planes, 3, stride)
        self.bn1 = nn.BatchNorm2D(planes)
        self.conv2 = _conv(planes, planes, 3)
        self.bn2 = nn.BatchNorm2D(planes)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        branch = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(branch)) + self.downsample(x))


class Bottleneck(nn.Layer):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the 3x3 strides.

    Args:
        in_chans: input channels.
        planes: a quarter of the output channels.
        stride: of the 3x3 convolution and of the shortcut.
        groups: groups of the 3x3 convolution (ResNeXt).
        base_width: inner channels of one group where ``planes`` is 64 (Wide ResNet, ResNeXt).
    Shape: [B, in_chans, H, W] -> [B, 4 * planes, H / stride, W / stride].
    """

    expansion = 4

    def __init__(self, in_chans, planes, stride=1, groups=1, base_width=64):
        super().__init__()
        inner, out_chans = planes * base_width // 64 * groups, planes * self.expansion
        self.conv1 = _conv(in_chans, inner, 1)
        self.bn1 = nn.BatchNorm2D(inner)
        self.conv2 = _conv(inner, inner, 3, stride, groups)
        self.bn2 = nn.BatchNorm2D(inner)
        self.conv3 = _conv(inner, out_chans, 1)
        self.bn3 = nn.BatchNorm2D(out_chans)
        self.downsample = _shortcut(in_chans, out_chans, stride)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        branch = F.relu(self.bn1(self.conv1(x)))
        branch = F.relu(self.bn2(self.conv2(branch)))
        return F.relu(self.bn3(self.conv3(branch)) + self.downsample(x))


_VARIANTS = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
    152: (Bottleneck, (3, 8, 36, 3)),
}


@BACKBONES.register()
class ResNet(StagedBackbone):
    """ResNet-18, 34, 50, 101 or 152.

    Args:
        depth: number of layers, names the variant (table 1 of the paper).
        in_chans: input channels.
        stem: ``"imagenet"``, a 7x7 convolution with stride 2 and a max-pool, or ``"cifar"``, a 3x3
            convolution with stride 1 alone, for images of about 32 pixels.
        width: channels of the stem and ``planes`` of the first stage.
        groups: groups of the bottlenecks' 3x3 convolutions.
        base_width: see :class:`Bottleneck`.
        zero_init_residual: start each block's last norm at 0, so that blocks begin as identities.
    Shape: images [B, C, H, W] -> [B, D], D = 8 * width, for bottlenecks 32 * width.
    """

    def __init__(
        self, depth=50, in_chans=3, stem="imagenet", width=64, groups=1, base_width=64,
        zero_init_residual=False,
    ):  # fmt: skip
        super().__init__()
        if depth not in _VARIANTS:
            raise ValueError(f"depth must be one of {', '.join(map(str, _VARIANTS))}, got {depth}")
        if stem not in ("imagenet", "cifar"):
            raise ValueError(f"stem must be 'imagenet' or 'cifar', got {stem!r}")
        block, num_blocks = _VARIANTS[depth]
        self.depths = num_blocks
        self.num_features = 8 * width * block.expansion

        self.conv1 = _conv(in_chans, width, 7, 2) if stem == "imagenet" else _conv(in_chans, width, 3)
        self.bn1 = nn.BatchNorm2D(width)
        self.maxpool = nn.MaxPool2D(3, stride=2, padding=1) if stem == "imagenet" else nn.Identity()
        in_chans = width
        for stage, count in enumerate(num_blocks):
            planes = width * 2**stage
            blocks = []
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(block(in_chans, planes, stride, groups, base_width))
                in_chans = planes * block.expansion
            self.add_sublayer(f"layer{stage + 1}", nn.Sequential(*blocks))

        self.apply(init_kaiming)
        if zero_init_residual:
            for layer in self.sublayers():
                if isinstance(layer, (BasicBlock, Bottleneck)):
                    zeros_((layer.bn3 if isinstance(layer, Bottleneck) else layer.bn2).weight)

    def _enter(self, images):
        return self.maxpool(F.relu(self.bn1(self.conv1(images))))

    def _stages(self):
        return [self.layer1, self.layer2, self.layer3, self.layer4]

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the stem, i + 1 for block i, counted through the stages."""
        part, _, rest = name.partition(".")
        if not part.startswith("layer"):
            return 0
        return self._depth(int(part[len("layer") :]) - 1, rest.split(".")[0])


def _conv(in_chans, out_chans, kernel, stride=1, groups=1):
    return nn.Conv2D(in_chans, out_chans, kernel, stride=stride, padding=kernel // 2, groups=groups, bias_attr=False)


def _shortcut(in_chans, out_chans, stride):
    """Identity where shapes agree, else a strided 1x1 projection (option B of the paper)."""
    if in_chans == out_chans and stride == 1:
        return nn.Identity()
    return nn.Sequential(_conv(in_chans, out_chans, 1, stride), nn.BatchNorm2D(out_chans))
