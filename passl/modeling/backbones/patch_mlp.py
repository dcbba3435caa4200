# SPDX-License-Identifier: Apache-2.0
"""What MLP-Mixer, ResMLP and gMLP share: patches, blocks of one width that mix them, a norm, a mean."""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers import PatchEmbed

from .base import TokenBackbone


class PatchMLP(TokenBackbone):
    """A network without attention or positions on a fixed number of patches.

    The weights that mix patches have one row for each patch, so that a model is tied to its ``img_size``:
    images of another size are refused, and weights of one size do not fit a model of another.

    State names are timm's; ``stem`` is what other families call ``patch_embed``.

    Args:
        img_size: height and width in pixels, one number or a pair.
        patch_size: side of a patch in pixels.
        in_chans: input channels.
        embed_dim: token width D.
        block: maps the number of a block and the number of patches N to the block.
        depth: number of blocks.
        norm: the norm after the last block.
    Shape: images [B, C, H, W] -> [B, embed_dim].
    """

    num_prefix_tokens = 0
    tied_to_img_size = True  # asked when weights do not fit

    def __init__(self, img_size, patch_size, in_chans, embed_dim, block, depth, norm):
        super().__init__()
        self.num_features = embed_dim
        self.stem = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.blocks = nn.LayerList([block(i, self.stem.num_patches) for i in range(depth)])
        self.norm = norm

    @property
    def patch_embed(self) -> PatchEmbed:
        """The stem, under the name that all backbones with patches share."""
        return self.stem

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The mean of the normed patches, [B, D]."""
        return self.forward_features(images).mean(1)

    def forward_features(self, images: paddle.Tensor) -> paddle.Tensor:
        """Normed patches, row by row, [B, N, D]."""
        return self.norm(self._run(images, [len(self.blocks) - 1])[0])

    def _embed(self, images):
        return self.stem(images)


def over_patches(layer: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
    """``layer`` along the patches of ``x`` [B, N, D] instead of its channels, as [B, N, D]."""
    return layer(x.transpose([0, 2, 1])).transpose([0, 2, 1])
