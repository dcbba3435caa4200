# SPDX-License-Identifier: Apache-2.0
"""Cross entropy with label smoothing, for class numbers or soft targets."""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.utils.registry import LOSSES


@LOSSES.register()
class CrossEntropy(nn.Layer):
    """Mean of ``-sum_k q_k log softmax(logits)_k``.

    Paper: Rethinking the Inception Architecture for Computer Vision, CVPR 2016,
    https://arxiv.org/abs/1512.00567, section 7: q = (1 - s) * target + s / K

    Args:
        label_smoothing: s in [0, 1).  It applies to soft targets too: set it in the mixing transform or
            here, not in both.
    Shape: logits [B, K]; labels int64 [B] or soft targets [B, K] -> scalar, float32.
    """

    def __init__(self, label_smoothing: float = 0.0):
        super().__init__()
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(f"label_smoothing must be in [0, 1), got {label_smoothing}")
        self.label_smoothing = float(label_smoothing)

    def forward(self, logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        if labels.ndim != 1 and labels.shape[1:] != logits.shape[1:]:
            raise ValueError(
                f"labels must be class numbers [B] or soft targets like the logits {list(logits.shape)}, "
                f"got {list(labels.shape)}"
            )
        log_probs = F.log_softmax(logits.astype("float32"), axis=-1)  # [B, K]
        if labels.ndim == 1:
            target_term = F.nll_loss(log_probs, labels)
        else:
            target_term = -(labels.astype("float32") * log_probs).sum(-1).mean()
        if self.label_smoothing == 0.0:
            return target_term
        return (1.0 - self.label_smoothing) * target_term - self.label_smoothing * log_probs.mean()

    def extra_repr(self) -> str:
        return f"label_smoothing={self.label_smoothing}"
