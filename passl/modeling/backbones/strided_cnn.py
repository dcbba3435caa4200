# SPDX-License-Identifier: Apache-2.0
"""A few strided convolutions read without pooling: a backbone for small images on a CPU.

No model of a paper, but three published ideas at the size that minutes on two cores allow:

- the output is the whole last map, so that a feature knows *where* something is: LeNet-5 in
  Gradient-Based Learning Applied to Document Recognition, Proc. IEEE 1998
- strides in place of pooling: Striving for Simplicity: The All Convolutional Net, ICLR 2015 workshop,
  https://arxiv.org/abs/1412.6806
- normalisation after each convolution: Batch Normalization, ICML 2015, https://arxiv.org/abs/1502.03167

It suits centred images of one size.  Where objects move about, or for anything large, take ResNet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import paddle
from paddle import nn
from paddle.nn.initializer import Normal

from passl.modeling.layers import check_image_size, pair
from passl.utils.registry import BACKBONES

from .base import StagedBackbone


@BACKBONES.register()
class StridedCNN(StagedBackbone):
    """Convolutions with stride 2, each with BatchNorm and ReLU; the last map, flattened and normed, is the output.

    Args:
        img_size: height and width in pixels, one number or a pair; the output width depends on it.
        in_chans: input channels.
        widths: output channels of the convolutions; the first has a 5x5 kernel, the others 3x3.
    Shape: images [B, C, H, W] -> [B, D], D = widths[-1] * h * w with h = H / 2^len(widths) rounded up, w likewise.
    Raises:
        ValueError: no width, or images of another size.
    """

    tied_to_img_size = True  # asked when weights do not fit

    def __init__(self, img_size=28, in_chans=3, widths: Sequence[int] = (24, 48, 96)):
        super().__init__()
        if not widths:
            raise ValueError("widths must name the channels of at least one convolution, got none")
        self.img_size = pair(img_size)
        channels = [in_chans, *widths]
        self.stages = nn.LayerList(
            [_stage(channels[i], channels[i + 1], kernel=5 if i == 0 else 3) for i in range(len(widths))]
        )
        height, width = (math.ceil(side / 2 ** len(widths)) for side in self.img_size)
        self.num_features = widths[-1] * height * width
        self.norm = nn.BatchNorm1D(self.num_features, weight_attr=False, bias_attr=False)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """Every place of the last map, each normalised on its own, [B, D]."""
        return self.norm(self.forward_features(images).flatten(1))

    def _enter(self, images):
        check_image_size(images, self.img_size)
        return images

    @property
    def num_layers(self) -> int:
        """Convolutions after the first, which counts as the stem."""
        return len(self.stages) - 1

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: i for convolution i (from 0) and its norm, then the last norm."""
        part, _, rest = name.partition(".")
        return self.num_layers + 1 if part == "norm" else int(rest.split(".")[0])


def _stage(in_chans: int, out_chans: int, kernel: int) -> nn.Sequential:
    """Half the height and width; He's normal rule on the incoming side for the convolution."""
    conv = nn.Conv2D(in_chans, out_chans, kernel, stride=2, padding=kernel // 2, bias_attr=False)
    Normal(0.0, math.sqrt(2.0 / (in_chans * kernel**2)))(conv.weight)
    return nn.Sequential(conv, nn.BatchNorm2D(out_chans), nn.ReLU())
