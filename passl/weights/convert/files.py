# SPDX-License-Identifier: Apache-2.0
"""Writing weight files: from a model, or from another file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from passl.utils.errors import CheckpointError

from ..card import Card, read_card, save_card
from ..read import read_arrays
from ..save import write_safetensors_atomic
from .normal import BACKBONE, HEAD, PADDLE_SUFFIXES, Normal, normalise, to_layout

_FORMAT = {"passl": "passl", "timm": "pt"}  # what the file's header says
TARGETS = tuple(_FORMAT)


def convert_file(
    source: str | Path,
    target: str | Path,
    layout: str = "auto",
    to: str = "passl",
    prefix: str | None = None,
    ignore_globals: Collection[str] = (),
) -> Normal:
    """Write the weights of ``source`` to the safetensors file ``target`` in another layout, by names and shapes alone.

    Args:
        source: any file that :func:`~passl.weights.read.read_arrays` reads.
        target: the file to write, all or nothing.
        layout: whose names the source has, ``"auto"`` to find out.
        to: ``"passl"`` or ``"timm"``.
        prefix: what to cut off in front of the source's names; None finds it.
        ignore_globals: see :func:`~passl.weights.read.read_arrays`.
    Returns:
        what was recognised; its ``arrays`` are those of the normal form.
    Raises:
        CheckpointError: an unreadable source, an unknown layout, or a target that cannot be written.
    """
    source, target = Path(source), _target(target, to)
    arrays = read_arrays(source, ignore_globals)
    normal = normalise(arrays, layout, prefix, paddle_file=source.suffix in PADDLE_SUFFIXES)
    ours = {name if name.startswith(HEAD) else BACKBONE + name: array for name, array in normal.arrays.items()}
    card = read_card(source) if source.suffix == ".safetensors" else None  # travels with its weights
    about = {"source": source.name, "layout": normal.layout} if to == "passl" else {}  # timm's files have no more
    _write(target, to_layout(ours, to), to, card, about)
    return normal


def save_weights(model, path: str | Path, card: Card | None = None, to: str = "passl") -> None:
    """Write a model's parameters and statistics to a safetensors file, and its card into it and beside it.

    Args:
        model: any layer.
        path: the ``.safetensors`` file, all or nothing.
        card: what the weights need to be used rightly.
        to: ``"passl"``, or ``"timm"`` for its names and [out, in] linear weights.
    Raises:
        CheckpointError: another ending or layout, or a file that cannot be written.
    """
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    _write(_target(path, to), to_layout(arrays, to), to, card, {})


def _write(path, arrays, to, card, about):
    """The file, and its card inside and beside it; without one a file for timm is, to the byte, what timm writes."""
    if card is not None:
        about = {**about, "card": card.to_json()}
    write_safetensors_atomic(path, arrays, {"format": _FORMAT[to], **about})
    if card is not None:
        save_card(card, path)


def _target(path: str | Path, to: str) -> Path:
    if to not in TARGETS:
        raise CheckpointError(f"cannot write layout '{to}': choose one of {', '.join(TARGETS)}")
    if Path(path).suffix != ".safetensors":
        raise CheckpointError(f"{path} must end in .safetensors, the only format that is written")
    return Path(path)
