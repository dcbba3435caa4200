# SPDX-License-Identifier: Apache-2.0
"""What follows from how a backbone is put together: a stack of blocks on tokens, or stages on maps."""

from __future__ import annotations

import paddle
from paddle import nn

from passl.modeling.layers.intermediates import block_indices, outputs_of
from passl.modeling.layers.maps import as_map


class TokenBackbone(nn.Layer):
    """Base of backbones whose blocks keep the number and width of their tokens.

    A subclass has ``_embed`` (images -> the tokens that enter the first block), ``patch_embed`` with ``grid_size``,
    ``blocks``, ``norm``, ``num_prefix_tokens``, and names every list of blocks in ``block_lists``.
    """

    block_lists: tuple[str, ...] = ("blocks",)

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The patches after the blocks ``indices`` as maps; blocks after the largest index are not run.

        Each is normed by ``norm``, which is the identity in a model that norms the mean of its patches instead.

        Args:
            indices: block numbers; negative ones count from the end.
        Shape: [B, D, h, w] for each index, in the order asked for.
        """
        tokens = self._run(images, block_indices(indices, len(self.blocks)))
        return [as_map(self.norm(x)[:, self.num_prefix_tokens :], self._grid(images)) for x in tokens]

    def _run(self, images, indices):
        """Tokens [B, P + N, D] after the blocks ``indices``."""
        return outputs_of(self.blocks, self._embed(images), indices)

    def _grid(self, images):
        return self.patch_embed.grid_size

    @property
    def num_layers(self) -> int:
        """Number of blocks, of all kinds."""
        return sum(len(getattr(self, blocks)) for blocks in self.block_lists)

    def layer_id(self, name: str) -> int:
        """Depth of the parameter ``name``: 0 for the embeddings, i + 1 for block i, num_layers + 1 for the norm."""
        part, _, rest = name.partition(".")
        before = 0
        for blocks in self.block_lists:
            if part == blocks:
                return before + int(rest.split(".")[0]) + 1
            before += len(getattr(self, blocks))
        return before + 1 if part in ("norm", "fc_norm") else 0

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis: none."""
        return set()


class StagedBackbone(nn.Layer):
    """Base of backbones that shrink their map from stage to stage and give the mean of the last one.

    A subclass has ``_enter`` (images -> what the first stage takes), ``_stages`` and ``depths``, the number of blocks
    of each stage.
    """

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The mean over all places of the last map, [B, D]."""
        return self.forward_features(images).mean([2, 3])

    def forward_features(self, images: paddle.Tensor) -> paddle.Tensor:
        """The last stage's map, [B, D, h, w]."""
        return self.forward_intermediates(images, [-1])[0]

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The maps after the stages ``indices``; stages after the largest are not run.

        Args:
            indices: stage numbers; negative ones count from the end.
        Shape: [B, C, h, w] for each index, in the order asked for; h and w halve from stage to stage.
        """
        stages = self._stages()
        return outputs_of(stages, self._enter(images), block_indices(indices, len(stages)))

    def _stages(self):
        return self.stages

    @property
    def num_layers(self) -> int:
        """Blocks of all stages."""
        return sum(self.depths)

    def _depth(self, stage, block=None) -> int:
        """``layer_id`` of a stage's block, or of what stands before its blocks and belongs to the block before it."""
        before = sum(self.depths[: int(stage)])
        return before if block is None else before + int(block) + 1

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis: none."""
        return set()
