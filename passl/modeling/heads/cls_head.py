# SPDX-License-Identifier: Apache-2.0
"""Linear classifiers."""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers.init import trunc_normal_, zeros_
from passl.utils.registry import HEADS


def checked_num_classes(num_classes: int) -> int:
    """``num_classes``, or ValueError when it is negative."""
    if num_classes < 0:
        raise ValueError(f"num_classes must be 0 (features only) or more, got {num_classes}")
    return num_classes


@HEADS.register()
class ClsHead(nn.Layer):
    """Dropout, then one linear layer.

    Args:
        in_dim: feature width D.
        num_classes: number of logits K; 0 leaves the classifier out and passes the features on.
        drop: dropout probability on the features, in [0, 1).
        init_std: standard deviation of the initial weights (truncated normal); the bias starts at 0.
    Shape: [B, D] -> [B, K].
    """

    def __init__(self, in_dim: int, num_classes: int, drop: float = 0.0, init_std: float = 0.02):
        super().__init__()
        self.in_dim, self.init_std = in_dim, init_std
        self.drop = nn.Dropout(drop)
        self.reset(num_classes)

    def reset(self, num_classes: int) -> None:
        """Start again with a fresh classifier of ``num_classes`` outputs."""
        self.num_classes = checked_num_classes(num_classes)
        self.fc = self._classifier()

    def _classifier(self) -> nn.Layer:
        if not self.num_classes:
            return nn.Identity()
        fc = nn.Linear(self.in_dim, self.num_classes)
        trunc_normal_(fc.weight, self.init_std)
        zeros_(fc.bias)
        return fc

    def forward(self, features: paddle.Tensor) -> paddle.Tensor:
        return self.fc(self.drop(features))


@HEADS.register()
class DistilledClsHead(ClsHead):
    """A classifier on the class token, which labels train, and one on the distillation token, which a teacher trains.

    Paper: Training data-efficient image transformers, ICML 2021, https://arxiv.org/abs/2012.12877, section 4

    Args: those of :class:`ClsHead`.
    Shape: tokens [B, 2, D], class token first -> in training both logits, ([B, K], [B, K]); else their mean [B, K].
    """

    def reset(self, num_classes: int) -> None:
        """Start again with two fresh classifiers of ``num_classes`` outputs; 0 passes the tokens on."""
        super().reset(num_classes)
        self.fc_dist = self._classifier()

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor | tuple[paddle.Tensor, paddle.Tensor]:
        tokens = self.drop(tokens)
        logits, distilled = self.fc(tokens[:, 0]), self.fc_dist(tokens[:, 1])
        return (logits, distilled) if self.training else (logits + distilled) / 2
