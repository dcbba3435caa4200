# SPDX-License-Identifier: Apache-2.0
"""LeViT's classifiers: BatchNorm before a linear layer, one for labels and one for a teacher."""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers.fuse import NormLinear, fuse_norms
from passl.modeling.layers.init import trunc_normal_, zeros_
from passl.utils.registry import HEADS

from .cls_head import checked_num_classes


@HEADS.register()
class LeViTHead(nn.Layer):
    """Two classifiers on the same features, ``fc``, which labels train, and ``fc_dist``, which a teacher trains.

    Paper: LeViT: a Vision Transformer in ConvNet's Clothing for Faster Inference, ICCV 2021,
    https://arxiv.org/abs/2104.01136, section 4.2

    Args:
        in_dim: feature width D.
        num_classes: number of logits K; 0 leaves the classifiers out and passes the features on.
        drop: dropout probability on the normed features, in [0, 1).
        init_std: standard deviation of the initial weights (truncated normal); the biases start at 0.
        distilled: whether there is a second classifier.
    Shape: [B, D] -> in training both logits, ([B, K], [B, K]); else their mean [B, K].
    """

    def __init__(self, in_dim: int, num_classes: int, drop=0.0, init_std=0.02, distilled=True):
        super().__init__()
        self.in_dim, self.drop, self.init_std, self.distilled = in_dim, drop, init_std, distilled
        self.reset(num_classes)

    def reset(self, num_classes: int) -> None:
        """Start again with fresh classifiers of ``num_classes`` outputs."""
        self.num_classes = checked_num_classes(num_classes)
        self.fc = self._classifier()
        self.fc_dist = self._classifier() if self.distilled else None

    def _classifier(self) -> nn.Layer:
        if not self.num_classes:
            return nn.Identity()
        layer = NormLinear(self.in_dim, self.num_classes, self.drop)
        trunc_normal_(layer.linear.weight, self.init_std)
        zeros_(layer.linear.bias)
        return layer

    def forward(self, features: paddle.Tensor) -> paddle.Tensor | tuple[paddle.Tensor, paddle.Tensor]:
        if not self.num_classes:
            return features
        logits = self.fc(features)
        if self.fc_dist is None:
            return logits
        distilled = self.fc_dist(features)
        return (logits, distilled) if self.training else (logits + distilled) / 2

    def fuse(self) -> LeViTHead:
        """Merge each BatchNorm into its linear layer, for inference; the state names change."""
        fuse_norms(self)
        return self
