# SPDX-License-Identifier: Apache-2.0
"""Reference values for losses, optimizers and schedules, and how closely they must be met.

A case holds the official code it was computed with (``reference``), its ``params``, recipes for
its ``inputs``, the values to ``expect`` and, per input, the L2 norm of the gradient and its first
eight entries.
"""

import json
from pathlib import Path

import numpy as np
import paddle

HERE = Path(__file__).parent


def load_cases(path):
    """The cases of a file below ``tests``, by name."""
    return {case["name"]: case for case in json.loads((HERE / path).read_text())}


def realize(recipe):
    """The array that a recipe describes."""
    if recipe["kind"] == "values":
        return np.asarray(recipe["values"]).astype(recipe["dtype"]).reshape(recipe["shape"])
    x = np.random.RandomState(recipe["seed"]).standard_normal(tuple(recipe["shape"])).astype(np.float32)
    for operation, *arguments in recipe["post"]:
        x = OPERATIONS[operation](x, *arguments)
    return x


def _softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


OPERATIONS = {
    "scale": lambda x, factor: x * np.float32(factor),
    "shift": lambda x, offset: x + np.float32(offset),
    "l2norm": lambda x, axis: x / np.maximum(np.sqrt((x**2).sum(axis, keepdims=True)), np.float32(1e-12)),
    "softmax": _softmax,
    "gt": lambda x, bound: x > np.float32(bound),
}


def inputs_of(case):
    """A case's inputs as tensors; those with an expected gradient require it."""
    tensors = {name: paddle.to_tensor(realize(recipe)) for name, recipe in case["inputs"].items()}
    for name in case.get("grad", {}):
        tensors[name].stop_gradient = False
    return tensors


def assert_scalar(value, expected):
    """A loss or another float scalar meets its reference."""
    assert abs(float(value) - expected) <= 1e-5 * abs(expected) + 1e-6, f"{float(value)} != {expected}"


def assert_array(value, expected):
    """An array meets its reference, relative to the reference's largest entry."""
    value, expected = np.asarray(value), np.asarray(expected)
    assert value.shape == expected.shape
    assert np.abs(value - expected).max() <= 1e-5 * np.abs(expected).max() + 1e-6


def assert_gradient(gradient, expected):
    """A gradient has the expected norm and first eight entries."""
    gradient = np.asarray(gradient)
    norm, first = expected["l2"], np.asarray(expected["first8"])
    assert abs(np.linalg.norm(gradient) - norm) <= 1e-4 * norm
    assert np.abs(gradient.reshape(-1)[:8] - first).max() <= 1e-4 * np.abs(first).max() + 1e-5 * norm
