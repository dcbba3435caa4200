# SPDX-License-Identifier: Apache-2.0
"""Supervised classification with any backbone."""

from __future__ import annotations

import math

import paddle
from paddle import nn

from passl.losses import CrossEntropy
from passl.utils.registry import METHODS

from .base import Method


@METHODS.register()
class Classifier(Method):
    """A backbone, a head and a loss.

    Args:
        architecture: images [B, 3, H, W] -> features [B, D].
        head: features [B, D] -> logits [B, K].
        loss: (logits [B, K], labels [B]) -> scalar; cross entropy by default.
    """

    def __init__(self, architecture: nn.Layer, head: nn.Layer, loss: nn.Layer | None = None):
        super().__init__()
        self.architecture = architecture
        self.head = head
        self.loss = loss or CrossEntropy()

    def forward(self, batch: dict) -> dict[str, paddle.Tensor]:
        logits = self.predict(batch["image"])
        loss = self.loss(logits, batch["label"])
        with paddle.no_grad():
            target = batch["label"] if batch["label"].ndim == 1 else batch["label"].argmax(-1)
            top1 = (logits.argmax(-1) == target).astype("float32").mean()
        return {"loss": loss, "train_top1": 100.0 * top1}

    def predict(self, images: paddle.Tensor) -> paddle.Tensor:
        """Logits [B, K]."""
        return self.head(self.architecture(images))

    def chance_level(self, batch_size: int) -> tuple[float, str]:
        return math.log(self.head.num_classes), f"ln {self.head.num_classes} classes"
