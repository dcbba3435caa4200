# SPDX-License-Identifier: Apache-2.0
"""The same weights one after the other or side by side: serial ViTs as parallel ones, and back.

Paper: Three things everyone should know about Vision Transformers, ECCV 2022,
https://arxiv.org/abs/2203.09795, section 3

Block n i + k of a serial model becomes branch k of block i of a parallel one.  No number changes and none is
added; the two models are of the same size, but not the same function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

Array = TypeVar("Array")

# a serial block's layer, the parallel block's list of branches, and the layer's name in a branch
_PLACES = (
    ("norm1", "attns", "norm"),
    ("attn", "attns", "attn"),
    ("ls1", "attns", "ls"),
    ("norm2", "ffns", "norm"),
    ("mlp", "ffns", "mlp"),
    ("ls2", "ffns", "ls"),
)
_TO_PARALLEL = {serial: (branches, layer) for serial, branches, layer in _PLACES}
_TO_SERIAL = {(branches, layer): serial for serial, branches, layer in _PLACES}
_SERIAL = re.compile(r"(?P<start>.*\.)?blocks\.(?P<block>\d+)\.(?P<layer>[a-z]+[12]?)\.(?P<rest>.+)")
_PARALLEL = re.compile(
    r"(?P<start>.*\.)?blocks\.(?P<block>\d+)\.(?P<branches>attns|ffns)\.(?P<branch>\d+)\.(?P<layer>[a-z]+)\.(?P<rest>.+)"
)


def to_parallel(state: Mapping[str, Array], num_branches: int = 2) -> dict[str, Array]:
    """The weights of a ViT for one with ``num_branches`` times fewer blocks of ``num_branches`` branches.

    Args:
        state: by the model's names, with anything in front of ``blocks``.
    Raises:
        ValueError: the blocks cannot be divided so, or ``state`` has no serial blocks.
    """
    matches = {name: _SERIAL.fullmatch(name) for name in state}
    depth = 1 + max((int(m["block"]) for m in matches.values() if m and m["layer"] in _TO_PARALLEL), default=-1)
    if depth == 0:
        raise ValueError(f"no blocks.0.norm1 and the like among the names; they begin: {', '.join(list(state)[:5])}")
    if num_branches < 1 or depth % num_branches:
        raise ValueError(f"{depth} blocks cannot be arranged in {num_branches} branches: the number must divide them")
    result = {}
    for name, array in state.items():
        match = matches[name]
        if match and match["layer"] in _TO_PARALLEL:
            block, branch = divmod(int(match["block"]), num_branches)
            branches, layer = _TO_PARALLEL[match["layer"]]
            name = f"{match['start'] or ''}blocks.{block}.{branches}.{branch}.{layer}.{match['rest']}"
        result[name] = array
    return result


def to_serial(state: Mapping[str, Array]) -> dict[str, Array]:
    """The weights of a parallel ViT for one with a block for each branch; undoes :func:`to_parallel` exactly.

    Args:
        state: by the model's names, with anything in front of ``blocks``.
    Raises:
        ValueError: ``state`` has no parallel blocks.
    """
    matches = {name: _PARALLEL.fullmatch(name) for name in state}
    num_branches = 1 + max((int(m["branch"]) for m in matches.values() if m), default=-1)
    if num_branches == 0:
        raise ValueError(f"no blocks.0.attns.0 and the like among the names; they begin: {', '.join(list(state)[:5])}")
    result = {}
    for name, array in state.items():
        match = matches[name]
        if match:
            block = num_branches * int(match["block"]) + int(match["branch"])
            layer = _TO_SERIAL[match["branches"], match["layer"]]
            name = f"{match['start'] or ''}blocks.{block}.{layer}.{match['rest']}"
        result[name] = array
    return result
