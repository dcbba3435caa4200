# SPDX-License-Identifier: Apache-2.0
"""A backbone and its classifier as one callable: what ``passl.create_model`` returns."""

from __future__ import annotations

import paddle
from paddle import nn


class Model(nn.Layer):
    """images -> logits.

    The state names, ``architecture.*`` and ``head.*``, are those of the method ``Classifier``:
    weights move between the two unchanged.

    Args:
        architecture: backbone, images [B, C, H, W] -> features [B, D].
        head: classifier, features [B, D] -> logits [B, K].
    """

    def __init__(self, architecture: nn.Layer, head: nn.Layer):
        super().__init__()
        self.architecture = architecture
        self.head = head

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """Logits [B, K], or the features [B, D] when the head has no classes."""
        return self.head(self.architecture(images))

    def forward_features(self, images: paddle.Tensor) -> paddle.Tensor:
        """The backbone's tokens [B, P + N, D] or map [B, C, h, w]."""
        return self.architecture.forward_features(images)

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The backbone's tokens or maps after the blocks or stages ``indices``."""
        return self.architecture.forward_intermediates(images, indices)

    @property
    def num_features(self) -> int:
        """Width D of the pooled features."""
        return self.architecture.num_features

    @property
    def num_classes(self) -> int:
        """Number of logits K; 0 when the head passes the features on."""
        return self.head.num_classes

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the classifier by a fresh one; 0 classes makes the model return features."""
        self.head.reset(num_classes)
