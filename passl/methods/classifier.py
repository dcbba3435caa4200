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

    Of a head that gives several logits in training (distilled DeiT), each learns from the labels: the loss is the
    mean of theirs.  DeiT's own code then leaves the second classifier alone, which evaluation averages in all the
    same, so that after a change of classes half of the answer would be random.  With a teacher, a distiller decides.

    Args:
        architecture: images [B, 3, H, W] -> features [B, D], or several [B, n, D].
        head: features -> logits [B, K], or in training a tuple of logits.
        loss: (logits [B, K], labels [B]) -> scalar; cross entropy by default.
    """

    def __init__(self, architecture: nn.Layer, head: nn.Layer, loss: nn.Layer | None = None):
        super().__init__()
        self.architecture = architecture
        self.head = head
        self.loss = loss or CrossEntropy()

    def forward(self, batch: dict) -> dict[str, paddle.Tensor]:
        logits = self.predict(batch["image"])
        several = logits if isinstance(logits, tuple) else (logits,)
        loss = paddle.add_n([self.loss(each, batch["label"]) for each in several]) / len(several)
        with paddle.no_grad():
            target = batch["label"] if batch["label"].ndim == 1 else batch["label"].argmax(-1)
            top1 = (paddle.add_n(list(several)).argmax(-1) == target).astype("float32").mean()
        return {"loss": loss, "train_top1": 100.0 * top1}

    def predict(self, images: paddle.Tensor) -> paddle.Tensor:
        """Logits [B, K]; in training those of each classifier, where the head has several."""
        return self.head(self.architecture(images))

    def chance_level(self, batch_size: int) -> tuple[float, str]:
        return math.log(self.head.num_classes), f"ln {self.head.num_classes} classes"
