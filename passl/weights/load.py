# SPDX-License-Identifier: Apache-2.0
"""Weights into a model, with an account of every tensor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

import numpy as np
import paddle
from paddle import nn

from passl.utils.errors import CheckpointError

from .convert import Normal, normalise
from .convert.normal import BACKBONE, HEAD, PADDLE_SUFFIXES, is_unused
from .read import read_arrays
from .resize import adapt_positions

Source = Union[str, Path, Mapping[str, np.ndarray]]


@dataclass
class Report:
    """What became of every tensor; ``print(report)`` shows it as a table.

    Args:
        source: file, or "arrays".
        layout: whose names and form were recognised.
        prefix: what was cut off in front of the file's names.
        matched: state names that were set, unchanged or resized.
        resized: (name, shape in the file, shape in the model) of resampled positions.
        fresh_head: classifier tensors that keep their initial values: (name, why).
        missing: backbone tensors the file does not have.
        mismatched: (name, shape in the file, shape in the model) of tensors that do not fit.
        untouched: tensors of the model beside backbone and classifier (a projector) that the file lacks.
        unexpected: tensors of the file that the model has no place for.
        left_out: tensors of the file outside ``prefix``.
    """

    source: str
    layout: str
    prefix: str
    matched: list[str] = field(default_factory=list)
    resized: list[tuple[str, tuple, tuple]] = field(default_factory=list)
    fresh_head: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    mismatched: list[tuple[str, tuple, tuple]] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        cut = f", prefix '{self.prefix}'" if self.prefix else ""
        rows = [
            ("matched", self.matched),
            ("resized", [f"{n} {_shape(a)} -> {_shape(b)}" for n, a, b in self.resized]),
            ("new classifier", [f"{n} ({why})" for n, why in self.fresh_head]),
            ("missing", self.missing),
            ("wrong shape", [f"{n} {_shape(a)}, model {_shape(b)}" for n, a, b in self.mismatched]),
            ("kept as they are", self.untouched),
            ("unexpected", self.unexpected),
            ("other parts", self.left_out),
        ]
        lines = [f"weights from {self.source}: layout {self.layout}{cut}"]
        for label, names in rows:
            if names or label in ("matched", "missing", "unexpected"):
                lines.append(f"  {label:<17}{len(names):>5}  {_some(names) if label != 'matched' else ''}".rstrip())
        return "\n".join(lines)


def load_weights(
    model: nn.Layer,
    source: Source,
    layout: str = "auto",
    strict: bool = True,
    prefix: str | None = None,
    antialias: bool = True,
    ignore_globals: Collection[str] = (),
) -> Report:
    """Set a model's parameters and statistics from a weight file of any known layout.

    The file's wrappers and names are recognised, linear weights are turned where needed, positions
    are resampled to the model's grid, and a classifier with another number of classes keeps its
    fresh values.  Whatever does not fit is in the report or an error, never passed over.

    Args:
        model: a :class:`~passl.modeling.model.Model`, a method with ``architecture``, or a bare backbone.
            A backbone may have ``adapt_weights(arrays) -> arrays`` to reshape arrays, given by its own
            names, before they are compared.
        source: a file (see :func:`~passl.weights.read.read_arrays`), or arrays by name.
        layout: whose names to expect, ``"auto"`` to find out.
        strict: raise when a backbone tensor is missing or has a wrong shape; otherwise only report it.
        prefix: what to cut off in front of the names (``"student."``); None finds it.
        antialias: filter positions when shrinking them, as timm does.
        ignore_globals: see :func:`~passl.weights.read.read_arrays`.
    Raises:
        CheckpointError: unreadable or unsafe file; with ``strict``, a missing or misshapen backbone tensor.
    """
    path = Path(source) if isinstance(source, (str, Path)) else None
    if isinstance(source, (str, Path)):
        arrays = read_arrays(source, ignore_globals)
    else:
        arrays = {name: _to_numpy(value) for name, value in source.items()}
    state = model.state_dict()
    if layout in ("auto", "passl") and prefix is None and set(state) <= set(arrays):
        normal = Normal(dict(arrays), "passl", "", [])
        fitted, goals = normal.arrays, {name: name for name in state}
        if not _all_shapes_agree(fitted, state):
            normal, fitted, goals = _find(model, state, arrays, layout, prefix, path, antialias)
    else:
        normal, fitted, goals = _find(model, state, arrays, layout, prefix, path, antialias)
    report = Report(str(path or "arrays"), normal.layout, normal.prefix, left_out=normal.left_out)
    _compare(report, state, normal.arrays, fitted, goals)
    if strict:
        _check(report, state, normal.arrays, getattr(model, "architecture", model))
    for name in report.matched:
        _set(state[name], fitted[goals[name]])
    return report


def _find(model, state, arrays, layout, prefix, path, antialias):
    """Normal arrays, the same with positions resampled, and {state name: normal name} of the model."""
    whole = any(name.startswith(BACKBONE) for name in state)  # a model or method, not a bare backbone
    goals = {n: n[len(BACKBONE) :] if n.startswith(BACKBONE) else n for n in state}
    if whole:
        goals = {name: goal for name, goal in goals.items() if name.startswith((BACKBONE, HEAD))}
    known = set(goals.values())
    linear = {f"{name}.weight" for name, layer in model.named_sublayers() if isinstance(layer, nn.Linear)}
    turned = {goals[name] for name in linear & set(goals)}
    normal = normalise(
        arrays,
        layout,
        prefix,
        score=lambda names: sum(name in known for name in names),
        linear=lambda name, array: name in turned or (name not in known and name.endswith(".weight")),
        paddle_file=path is not None and path.suffix in PADDLE_SUFFIXES,
    )
    backbone = model.architecture if whole else model
    fitted = normal.arrays
    if hasattr(backbone, "adapt_weights"):
        fitted = backbone.adapt_weights(dict(fitted))
    fitted = adapt_positions(backbone, fitted, antialias)
    if normal.prefix == BACKBONE:  # one of our own files: what the method keeps beside the backbone comes along
        goals.update({name: name for name in state if name not in goals and name in arrays})
        fitted.update({name: arrays[name] for name in goals.values() if name not in fitted and name in arrays})
        normal.left_out = [name for name in normal.left_out if name not in goals]
    return normal, fitted, goals


def _all_shapes_agree(arrays, state) -> bool:
    return all(arrays[name].shape == tuple(tensor.shape) for name, tensor in state.items())


def _compare(report: Report, state, normal, fitted, goals: Mapping[str, str]) -> None:
    """Sort the model's tensors and the file's into the report's lists."""
    for name, tensor in state.items():
        array, wanted = fitted.get(goals.get(name, "")), tuple(tensor.shape)
        head = name.startswith(HEAD)
        if array is not None and array.shape == wanted:
            report.matched.append(name)
            before = normal.get(goals[name])
            if before is not None and before.shape != wanted:
                report.resized.append((name, before.shape, wanted))
        elif head:
            report.fresh_head.append((name, "not in the file" if array is None else f"file has {_shape(array.shape)}"))
        elif array is not None:
            report.mismatched.append((name, array.shape, wanted))
        elif name not in goals:
            report.untouched.append(name)
        else:
            report.missing.append(name)
    fresh = {name.rpartition(".")[0] for name, _ in report.fresh_head}
    halves = [name for name in report.matched if name.startswith(HEAD) and name.rpartition(".")[0] in fresh]
    report.matched = [name for name in report.matched if name not in halves]
    report.fresh_head += [(name, "the rest of its layer does not fit") for name in halves]
    used = set(goals.values())
    report.unexpected = sorted(name for name in fitted if name not in used and not is_unused(name))


def _check(report: Report, state, normal, architecture) -> None:
    backbone = [name for name in report.matched if not name.startswith(HEAD)]
    if not (report.missing or report.mismatched or not backbone):
        return
    advice = "load with strict=False to go on with what matches"
    if len(backbone) * 2 < len(report.missing):
        advice = (
            f"hardly anything matches: is it the right model?  The file has names such as {_some(list(normal), 4)}; "
            f"the model has {_some(list(state), 4)}"
        )
    elif "dist_token" in report.unexpected:
        advice = "the file holds a distilled model (dist_token): build the distilled variant"
    elif "dist_token" in "".join(report.missing):
        advice = "the file holds a model without distillation token: build the variant that is not distilled"
    elif report.mismatched and getattr(architecture, "tied_to_img_size", False):
        advice = (
            f"{type(architecture).__name__} has weights for each place of an image: "
            f"build the model with the img_size that the file was trained at"
        )
    elif report.mismatched and all(name.endswith("pos_embed") for name, *_ in report.mismatched):
        advice = (
            "the file's patch grid is not square or its positions are of another kind: build the model for its size"
        )
    elif len(report.mismatched) > len(report.matched):
        advice = "most tensors have another shape: is it the right variant of the model?"
    raise CheckpointError(f"{report}\nThe weights do not fit the model, which is unchanged; {advice}")


def _to_numpy(value) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _set(tensor: paddle.Tensor, array: np.ndarray) -> None:
    value = np.ascontiguousarray(array)
    if tensor.dtype == paddle.bfloat16:
        tensor.set_value(paddle.to_tensor(value.astype(np.float32)).astype("bfloat16"))
    else:
        tensor.set_value(value.astype(str(tensor.dtype).split(".")[-1], copy=False))


def _shape(shape) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _some(names: Collection[str], count: int = 6) -> str:
    shown = ", ".join(list(names)[:count])
    return shown + (f", … ({len(names) - count} more)" if len(names) > count else "")
