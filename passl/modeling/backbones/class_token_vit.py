# SPDX-License-Identifier: Apache-2.0
"""What LV-ViT and T2T-ViT share: a class token before the patches, a position for each, and blocks of one kind."""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.intermediates import block_indices


class ClassTokenViT(nn.Layer):
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
        for layer in self.sublayers():
            if isinstance(layer, nn.Conv2D):
                init_torch_conv(layer)
        trunc_normal_(self.cls_token)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The normed class token, [B, D]."""
        x = self._embed(images)
        for block in self.blocks[:-1]:
            x = block(x)
        return self.norm(self.blocks[-1](x, num_queries=1)[:, 0])  # the last block serves the class token alone

    def forward_features(self, images: paddle.Tensor) -> paddle.Tensor:
        """Normed tokens, class token first, [B, 1 + N, D]."""
        x = self._embed(images)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The normed patches after the blocks ``indices`` as maps; blocks after the largest index are not run.

        Args:
            indices: block numbers; negative ones count from the end.
        Shape: [B, D, h, w] for each index, in the order asked for.
        """
        indices = block_indices(indices, self.num_layers)
        x = self._embed(images)
        maps = {}
        for i, block in enumerate(self.blocks[: max(indices) + 1]):
            x = block(x)
            if i in indices:
                patches = self.norm(x)[:, 1:].transpose([0, 2, 1])  # [B, D, N]
                maps[i] = patches.reshape([-1, self.num_features, *self.patch_embed.grid_size])
        return [maps[i] for i in indices]

    def _embed(self, images):
        """Tokens that enter the first block, [B, 1 + N, D]."""
        x = self.patch_embed(images)
        x = paddle.concat([self.cls_token.expand([x.shape[0], -1, -1]).astype(x.dtype), x], axis=1)
        return self.pos_drop(x + self.pos_embed)

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the embeddings, i + 1 for block i, num_layers + 1 for the norm."""
        part, _, rest = name.partition(".")
        if part == "blocks":
            return int(rest.split(".")[0]) + 1
        return self.num_layers + 1 if part == "norm" else 0

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis."""
        return {"cls_token"} if self.pos_embed.stop_gradient else {"cls_token", "pos_embed"}
