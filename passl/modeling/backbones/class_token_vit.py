# SPDX-License-Identifier: Apache-2.0
"""What LV-ViT and T2T-ViT share: a class token before the patches, a position for each, and blocks of one kind."""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers import prepend
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_

from .base import TokenBackbone


class ClassTokenViT(TokenBackbone):
    """Base of backbones that differ in how they make patches and in their blocks.

    There is no ``keep``: both mix neighbouring patches before the first block.

    A subclass gives ``patch_embed`` (images -> [B, N, D], with ``grid_size``), ``pos_embed`` [1, 1 + N, D], ``blocks``
    that take ``num_queries``, and calls :meth:`_finish`.
    """

    num_prefix_tokens = 1

    def _finish(self, embed_dim, drop_rate, epsilon):
        """Class token, final norm, dropout, and the initial values of all but the positions."""
        self.num_features = embed_dim
        self.cls_token = self.create_parameter([1, 1, embed_dim])
        self.pos_drop = nn.Dropout(drop_rate)
        self.norm = nn.LayerNorm(embed_dim, epsilon=epsilon)
        self.apply(init_vit)
        self.apply(init_torch_conv)
        trunc_normal_(self.cls_token)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The normed class token, [B, D]."""
        x = self._embed(images)
        for block in self.blocks[:-1]:
            x = block(x)
        return self.norm(self.blocks[-1](x, num_queries=1)[:, 0])  # the last block serves the class token alone

    def forward_features(self, images: paddle.Tensor) -> paddle.Tensor:
        """Normed tokens, class token first, [B, 1 + N, D]."""
        return self.norm(self._run(images, [len(self.blocks) - 1])[0])

    def _embed(self, images):
        """Tokens that enter the first block, [B, 1 + N, D]."""
        return self.pos_drop(prepend(self.cls_token, self.patch_embed(images)) + self.pos_embed)

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        return {"cls_token"} if self.pos_embed.stop_gradient else {"cls_token", "pos_embed"}
