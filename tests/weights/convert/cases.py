# SPDX-License-Identifier: Apache-2.0
"""Arrays under the real names of the reference models."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from passl.weights import load_weights
from passl.weights.convert import to_layout

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


def renamed(arrays, rules) -> dict[str, np.ndarray]:
    """Each array under the name that the first fitting rule, a pattern and what takes its place, gives."""
    result = {}
    for name, array in arrays.items():
        pattern, to = next((rule for rule in rules if re.fullmatch(rule[0], name)), ("", ""))
        result[re.sub(pattern, to, name) if pattern else name] = array
    return result


def check_return(model, convert) -> None:
    """Assert that the model's weights come back whole from another library's form, which ``convert`` gives them."""
    state = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    arrays = to_layout({f"architecture.{name}": array for name, array in state.items()})
    for parameter in model.parameters():
        parameter.set_value(parameter + 1.0)
    report = load_weights(model, convert(arrays))
    assert report.missing == report.unexpected == []
    assert all((tensor.numpy() == state[name]).all() for name, tensor in model.state_dict().items())
