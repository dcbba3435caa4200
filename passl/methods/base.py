# SPDX-License-Identifier: Apache-2.0
"""What every method is to the trainer."""

from __future__ import annotations

import paddle
from paddle import nn


class Method(nn.Layer):
    """A model together with the mathematics that trains it.

    ``forward(batch)`` returns ``{"loss": scalar, ...}``; the other scalars are logged.  Everything
    that needs a gradient happens inside ``forward``, since the trainer wraps it for data
    parallelism.  A method sees no optimizer, no config, no rank; of time it sees ``progress``,
    the finished share of the training in [0, 1].
    """

    architecture: nn.Layer

    def __init__(self):
        super().__init__()
        self.frozen_layers: list[nn.Layer] = []  # they stay in evaluation mode

    def train(self) -> None:
        """Training mode, but not for what is frozen as a whole: its BatchNorm and dropout rest too."""
        super().train()
        for layer in self.frozen_layers:
            layer.eval()

    def features(self, images: paddle.Tensor) -> paddle.Tensor:
        """What a frozen evaluation (kNN, linear probe) sees: the backbone's [B, D], or the mean of its [B, n, D]."""
        features = self.architecture(images)
        return features.mean(1) if features.ndim == 3 else features

    def before_step(self, progress: float) -> None:
        """Called before a step's first forward pass."""

    def after_backward(self, progress: float) -> None:
        """Called between the backward pass and the optimizer step; may change gradients."""

    def after_step(self, progress: float) -> None:
        """Called after the optimizer step, e.g. to move a momentum encoder."""

    def chance_level(self, batch_size: int) -> tuple[float, str] | None:
        """The loss of a model that knows nothing, and its formula, for a global batch of images."""
        return None
