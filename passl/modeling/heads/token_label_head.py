# SPDX-License-Identifier: Apache-2.0
"""A classifier of the class token and of every patch."""

from __future__ import annotations

import paddle

from passl.utils.registry import HEADS

from .cls_head import ClsHead


@HEADS.register()
class TokenLabelHead(ClsHead):
    """One linear layer for the class token and another for the patches: class + 0.5 * max over patches.

    Paper: All Tokens Matter: Token Labeling for Training Better Vision Transformers, NeurIPS 2021,
    https://arxiv.org/abs/2104.10858

    Args: those of :class:`ClsHead`.
    Shape: tokens [B, 1 + N, D], class token first -> [B, K].
    """

    def reset(self, num_classes: int) -> None:
        """Start again with two fresh classifiers of ``num_classes`` outputs; 0 passes the class token on."""
        super().reset(num_classes)
        self.fc_aux = self._classifier()

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        if not self.num_classes:
            return self.drop(tokens[:, 0])
        logits, patches = self.token_logits(tokens)
        return logits + 0.5 * patches.max(1)

    def token_logits(self, tokens: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """What a loss with a label for each patch compares: logits [B, K] and those of the patches [B, N, K]."""
        tokens = self.drop(tokens)
        return self.fc(tokens[:, 0]), self.fc_aux(tokens[:, 1:])
