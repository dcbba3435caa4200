# SPDX-License-Identifier: Apache-2.0
"""timm -> ours -> timm returns the same bytes, for the real key list of every reference model."""

import json
from pathlib import Path

import numpy as np
import pytest

from passl.weights.convert import normalise, to_layout

GOLDENS = sorted((Path(__file__).parents[2] / "parity" / "goldens").glob("timm__*.npz"))


def small(entries):
    """Arrays of the listed names whose sizes are equal exactly where the real ones are, but small."""
    sizes = sorted({size for _, shape, _ in entries for size in shape if size > 4})
    shrunk = {size: 5 + i for i, size in enumerate(sizes)}
    random = np.random.RandomState(0)
    return {n: random.standard_normal([shrunk.get(s, s) for s in shape]).astype(np.float32) for n, shape, _ in entries}


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_the_round_trip_is_exact(path):
    with np.load(path) as golden:
        arrays = small(json.loads(str(golden["meta"]))["entries"])
    normal = normalise(arrays)
    ours = {n if n.startswith("head.") else f"architecture.{n}": a for n, a in normal.arrays.items()}
    assert not any(name.endswith(("running_mean", "running_var")) for name in ours)
    back = to_layout(ours)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].shape == array.shape and back[name].tobytes() == array.tobytes(), name
