# SPDX-License-Identifier: Apache-2.0
"""The contrastive loss of SimCLR."""

from __future__ import annotations

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.utils.distributed import all_gather_with_gradient, rank, world_size
from passl.utils.registry import LOSSES


@LOSSES.register()
class NTXent(nn.Layer):
    """Normalised temperature-scaled cross entropy: which of the other 2N - 1 views shows the same image?

    Paper: A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020,
    https://arxiv.org/abs/2002.05709, eq. 1

    The candidates come from all processes, with gradient; the mean runs over this process's 2B anchors.
    Google's code sums the two directions, which is twice this value.

    Args:
        temperature: divides the cosine similarities, > 0.
    Shape: z1, z2 [B, D], row i of both from image i -> scalar, float32.
    """

    def __init__(self, temperature: float = 0.1):
        super().__init__()
        if temperature <= 0.0:
            raise ValueError(f"the temperature must be positive, got {temperature}")
        self.temperature = float(temperature)

    def forward(self, z1: paddle.Tensor, z2: paddle.Tensor) -> paddle.Tensor:
        z1, z2 = (F.normalize(z.astype("float32"), axis=-1) for z in (z1, z2))
        batch, total = z1.shape[0], z1.shape[0] * world_size()
        anchors = paddle.concat([z1, z2])  # [2B, D]
        candidates = paddle.concat([all_gather_with_gradient(z1), all_gather_with_gradient(z2)])  # [2N, D]
        with paddle.amp.auto_cast(enable=False):  # divided by T, a rounding error of half precision is ten times larger
            logits = paddle.matmul(anchors, candidates, transpose_y=True) / self.temperature  # [2B, 2N]
        first = rank() * batch + paddle.arange(batch)  # columns of this process's first views
        own = paddle.concat([first, first + total])
        positive = paddle.concat([first + total, first])
        logits = logits - 1e9 * F.one_hot(own, 2 * total)  # an anchor is no candidate for itself
        return F.cross_entropy(logits, positive)

    def chance_level(self, batch_size: int) -> float:
        """The loss, ln(2N - 1), when all similarities are equal, for a global batch of N images."""
        return math.log(2 * batch_size - 1)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}"
