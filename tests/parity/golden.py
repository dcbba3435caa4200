# SPDX-License-Identifier: Apache-2.0
"""Outputs of reference implementations, and how a model of ours is held against them.

A golden is ``goldens/<source>__<model>.npz`` with, for weights and images from ``fill.py``:
``logits`` and ``logits_coarse`` [2, K] (features where the reference has no classifier), ``pooled``
[2, D], some with ``loss`` (cross entropy with ``meta["labels"]``, in eval mode), ``grad_names`` and
``grad_norms``; ``meta`` lists every state-dict entry of the reference, and every norm's epsilon.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from tests.parity.fill import coarse_images, fill, white_images

FORWARD_TOLERANCE = 1e-5  # of the largest logit; 1e-4 would let a tanh GELU pass
GRADIENT_TOLERANCE = 1e-3  # of a parameter's norm
NEGLIGIBLE_GRADIENT = 1e-6  # of the largest norm: zero but for rounding

Rename = Callable[[str], str]


class Golden:
    """One reference model's outputs."""

    def __init__(self, name: str):
        with np.load(Path(__file__).parent / "goldens" / f"{name}.npz") as arrays:
            self.arrays = {key: arrays[key] for key in arrays.files}
        self.meta = json.loads(str(self.arrays["meta"]))

    def images(self, kind: str = "white") -> paddle.Tensor:
        make = {"white": white_images, "coarse": coarse_images}[kind]
        return paddle.to_tensor(make(2, self.meta["input_size"][-1], self.meta["image_seed"]))

    def __contains__(self, key: str) -> bool:
        return key in self.arrays

    def __getitem__(self, key: str) -> np.ndarray:
        return self.arrays[key]


def fill_model(model: nn.Layer, golden: Golden, rename: Rename) -> None:
    """Set every parameter and buffer of ``model`` exactly once from the reference's entries."""
    ours = model.state_dict()
    linear = {f"{name}.weight" for name, layer in model.named_sublayers() if isinstance(layer, nn.Linear)}
    unset = set(ours)
    for name, shape, _ in golden.meta["entries"]:
        target = rename(name).replace("running_mean", "_mean").replace("running_var", "_variance")
        assert target in unset, (
            f"{name} -> {target}: {'set twice' if target in ours else 'the model has no such entry'}"
        )
        value = fill(name, shape, golden.meta["seed"])
        if target in linear:
            value = value.reshape(value.shape[:2]).T  # the reference may write it as a 1x1 convolution
        wanted = ours[target].shape
        assert _sides(wanted) == _sides(value.shape), f"{target}: {wanted}, expected {value.shape}"
        ours[target].set_value(np.ascontiguousarray(value).reshape(wanted))
        unset.remove(target)
    assert not unset, f"the reference has no {sorted(unset)}"


def _sides(shape) -> list[int]:
    """A shape without axes of length 1, which libraries add for broadcasting."""
    return [side for side in shape if side != 1]


def check_norms(model: nn.Layer, golden: Golden, rename: Rename) -> None:
    """Every norm has the reference's epsilon, and there are as many."""
    layers = dict(model.named_sublayers())
    expected = {name: float(kind.split()[1]) for kind, names in golden.meta["norm_eps"].items() for name in names}
    for name, epsilon in expected.items():
        ours = rename(f"{name}.weight").rpartition(".")[0]
        assert layers[ours]._epsilon == epsilon, f"{ours}: epsilon {layers[ours]._epsilon}, expected {epsilon}"
    norms = [name for name, layer in layers.items() if hasattr(layer, "_epsilon")]
    assert len(norms) == len(expected)


def check_outputs(model: nn.Layer, golden: Golden) -> None:
    """Logits of both kinds of images, and the pooled features, are the reference's."""
    with paddle.no_grad():
        pooled = model.architecture(golden.images())
        _check_close(model.head(pooled), golden["logits"], "logits")
        if pooled.ndim == 3:  # two tokens with a head each, or all tokens, class token first
            pooled = pooled.mean(1) if pooled.shape[1] == 2 else pooled[:, 0]
        _check_close(pooled, golden["pooled"], "pooled")
        _check_close(model(golden.images("coarse")), golden["logits_coarse"], "logits_coarse")


def check_gradients(model: nn.Layer, golden: Golden, rename: Rename) -> None:
    """The loss and the norm of each parameter's gradient are the reference's."""
    loss = F.cross_entropy(model(golden.images()), paddle.to_tensor(golden.meta["labels"]))
    assert abs(float(loss) - float(golden["loss"])) <= 1e-5
    loss.backward()
    ours = dict(model.named_parameters())
    norms = dict(zip(json.loads(str(golden["grad_names"])), golden["grad_norms"]))
    floor = NEGLIGIBLE_GRADIENT * np.nanmax(golden["grad_norms"])
    for name, expected in norms.items():
        if np.isnan(expected):  # frozen in the reference
            continue
        norm = float(ours[rename(name)].grad.square().sum().sqrt())
        if expected > floor:
            assert abs(norm - expected) <= GRADIENT_TOLERANCE * expected, f"{name}: {norm}, expected {expected}"
        else:
            assert norm <= 10 * floor, f"{name}: {norm}, expected about 0"


def _check_close(ours: paddle.Tensor, expected: np.ndarray, what: str) -> None:
    difference = np.abs(ours.numpy() - expected).max() / np.abs(expected).max()
    assert difference <= FORWARD_TOLERANCE, f"{what} differ by {difference:.1e} of the largest"
