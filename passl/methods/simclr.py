# SPDX-License-Identifier: Apache-2.0
"""SimCLR.

Paper: A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020,
https://arxiv.org/abs/2002.05709
"""

from __future__ import annotations

import math

import paddle
from paddle import nn

from passl.utils.registry import METHODS

from .base import Method


@METHODS.register()
class SimCLR(Method):
    """Pulls two views of an image together and pushes all other images of the global batch away.

    Args:
        architecture: the encoder f, images -> [B, D].
        projector: the head g, [B, D] -> [B, d]; thrown away after pre-training.
        loss: contrastive loss of (z1, z2); NT-Xent in the paper.
    Shape: ``batch["views"]`` holds two tensors [B, 3, H, W].

    The loss is the mean over the 2B anchors; Google's code sums both directions (twice the value).
    """

    def __init__(self, architecture: nn.Layer, projector: nn.Layer, loss: nn.Layer):
        super().__init__()
        self.architecture = architecture
        self.projector = projector
        self.loss = loss

    def forward(self, batch: dict) -> dict[str, paddle.Tensor]:
        views = batch["views"]
        if len(views) != 2:
            raise ValueError(f"SimCLR compares two views of each image, got {len(views)}: see the Views transform")
        z = self.projector(self.architecture(paddle.concat(views)))  # [2B, d], one pass: BatchNorm sees both views
        z1, z2 = z.chunk(2)
        return {"loss": self.loss(z1, z2)}

    def chance_level(self, batch_size: int) -> tuple[float, str]:
        others = 2 * batch_size - 1
        return math.log(others), f"ln {others} other views"
