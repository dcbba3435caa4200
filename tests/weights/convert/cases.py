# SPDX-License-Identifier: Apache-2.0
"""Arrays under the real names of the reference models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

GOLDENS = Path(__file__).parents[2] / "parity" / "goldens"


def small(entries) -> dict[str, np.ndarray]:
    """Arrays of the listed names whose sizes are equal exactly where the real ones are, but small."""
    sizes = sorted({size for _, shape, _ in entries for size in shape if size > 4})
    shrunk = {size: 5 + i for i, size in enumerate(sizes)}
    random = np.random.RandomState(0)
    return {n: random.standard_normal([shrunk.get(s, s) for s in shape]).astype(np.float32) for n, shape, _ in entries}


def reference(golden: str) -> dict[str, np.ndarray]:
    """:func:`small` arrays for all entries of the reference model ``golden``."""
    with np.load(GOLDENS / f"{golden}.npz") as arrays:
        return small(json.loads(str(arrays["meta"]))["entries"])


def same(found, expected) -> None:
    """Assert that two mappings have the same names, and arrays of the same shape and bytes."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape and found[name].tobytes() == array.tobytes(), name
