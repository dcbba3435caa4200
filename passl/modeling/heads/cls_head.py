# SPDX-License-Identifier: Apache-2.0
"""The linear classifier."""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers.init import trunc_normal_, zeros_
from passl.utils.registry import HEADS


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
        if num_classes < 0:
            raise ValueError(f"num_classes must be 0 (features only) or more, got {num_classes}")
        self.num_classes = num_classes
        self.fc = nn.Linear(self.in_dim, num_classes) if num_classes else nn.Identity()
        if num_classes:
            trunc_normal_(self.fc.weight, self.init_std)
            zeros_(self.fc.bias)

    def forward(self, features: paddle.Tensor) -> paddle.Tensor:
        return self.fc(self.drop(features))
