# SPDX-License-Identifier: Apache-2.0
"""Which blocks a caller of ``forward_intermediates`` means, and what they give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def block_indices(indices: Sequence[int], num_blocks: int) -> list[int]:
    """Block numbers from 0, in the order asked for; negative ones count from the end.

    Raises:
        ValueError: no index at all, or one that names no block.
    """
    indices = list(indices)
    wrong = [i for i in indices if not -num_blocks <= i < num_blocks]
    if wrong or not indices:
        raise ValueError(
            f"indices must name blocks 0 to {num_blocks - 1}, or count from the end with -1, got {indices}"
        )
    return [i % num_blocks for i in indices]


def outputs_of(blocks: Iterable, x, indices: Sequence[int], *context) -> list:
    """What the blocks ``indices`` give when ``x`` goes through all of them; those after the largest are not run.

    Args:
        blocks: layers, each of which takes what the one before gives.
        indices: block numbers from 0.
        context: what every block takes besides.
    """
    outputs = {}
    for i, block in enumerate(blocks):
        x = block(x, *context)
        if i in indices:
            outputs[i] = x
        if i == max(indices):
            break
    return [outputs[i] for i in indices]
