# SPDX-License-Identifier: Apache-2.0
"""Masked autoencoder.

Paper: Masked Autoencoders Are Scalable Vision Learners, CVPR 2022, https://arxiv.org/abs/2111.06377
"""

from __future__ import annotations

import paddle
from paddle import nn

from passl.utils.registry import METHODS

from .base import Method


@METHODS.register()
class MAE(Method):
    """Encodes a random quarter of the patches and reconstructs the pixels of the others.

    Args:
        architecture: a token backbone whose ``forward_features`` takes ``keep``.
        decoder: (tokens [B, P + M, D], restore [B, N]) -> predicted patches [B, N, p * p * 3].
        loss: (predictions, images, mask [B, N]) -> scalar, over masked patches only.
        mask_ratio: share of the patches that the encoder does not see, in (0, 1).

    Each image has its own random mask and keeps exactly ``int(N * (1 - mask_ratio))`` patches.
    """

    def __init__(self, architecture: nn.Layer, decoder: nn.Layer, loss: nn.Layer, mask_ratio: float = 0.75):
        super().__init__()
        num_patches = architecture.patch_embed.num_patches
        self.num_kept = int(num_patches * (1 - mask_ratio))
        if not 0 < self.num_kept < num_patches:
            raise ValueError(
                f"mask_ratio (={mask_ratio}) keeps {self.num_kept} of {num_patches} patches: "
                "at least one must be kept and one masked"
            )
        self.architecture = architecture
        self.decoder = decoder
        self.loss = loss
        self.mask_ratio = mask_ratio

    def forward(self, batch: dict) -> dict[str, paddle.Tensor]:
        images = batch["image"]
        keep, restore, mask = self.random_mask(images.shape[0])
        tokens = self.architecture.forward_features(images, keep=keep)  # [B, P + M, D]
        return {"loss": self.loss(self.decoder(tokens, restore), images, mask)}

    def random_mask(self, batch_size: int) -> tuple[paddle.Tensor, paddle.Tensor, paddle.Tensor]:
        """Indices of the kept patches [B, M], the inverse shuffle [B, N], and 1 for masked patches [B, N]."""
        num_patches = self.architecture.patch_embed.num_patches
        shuffle = paddle.argsort(paddle.rand([batch_size, num_patches]), axis=1)
        restore = paddle.argsort(shuffle, axis=1)
        mask = (restore >= self.num_kept).astype("float32")
        return shuffle[:, : self.num_kept], restore, mask

    def reconstruct(self, images: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Predicted patches [B, N, p * p * 3] under a random mask, and the mask [B, N]; for pictures."""
        keep, restore, mask = self.random_mask(images.shape[0])
        return self.decoder(self.architecture.forward_features(images, keep=keep), restore), mask
