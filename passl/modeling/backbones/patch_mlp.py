# SPDX-License-Identifier: Apache-2.0
"""What MLP-Mixer, ResMLP and gMLP share: patches, blocks of one width that mix them, a norm, a mean."""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers import PatchEmbed
from passl.modeling.layers.intermediates import block_indices


class PatchMLP(nn.Layer):
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
        x = self.stem(images)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The normed patches after the blocks ``indices`` as maps; blocks after the largest are not run.

        Args:
            indices: block numbers; negative ones count from the end.
        Shape: [B, D, h, w] for each index, in the order asked for.
        """
        indices = block_indices(indices, self.num_layers)
        x = self.stem(images)
        maps = {}
        for i, block in enumerate(self.blocks[: max(indices) + 1]):
            x = block(x)
            if i in indices:
                rows = self.norm(x).reshape([-1, *self.stem.grid_size, self.num_features])
                maps[i] = rows.transpose([0, 3, 1, 2])
        return [maps[i] for i in indices]

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the stem, i + 1 for block i, num_layers + 1 for the norm."""
        part, _, rest = name.partition(".")
        if part == "blocks":
            return int(rest.split(".")[0]) + 1
        return self.num_layers + 1 if part == "norm" else 0

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis: none."""
        return set()


def over_patches(layer: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
    """``layer`` along the patches of ``x`` [B, N, D] instead of its channels, as [B, N, D]."""
    return layer(x.transpose([0, 2, 1])).transpose([0, 2, 1])
