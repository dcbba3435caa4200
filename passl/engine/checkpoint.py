# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that survive a crash at any moment.

A checkpoint is a folder ``checkpoints/step_00001234`` with

    model.safetensors      parameters and buffers of the method, by structured name
    training.safetensors   optimizer state and averaged weights, by structured name
    state.json             step, best figure, running sums, size and SHA-256 of the other files

It is written under a temporary name, synced to disk and renamed, so that a name without the
prefix ``.tmp-`` is complete.  Reading verifies sizes and hashes; nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from passl.utils.errors import CheckpointError
from passl.utils.log import logger
from passl.weights.save import atomic_file, sync_folder, write_safetensors_atomic

FORMAT = 1
MODEL, TRAINING, STATE = "model.safetensors", "training.safetensors", "state.json"
_NAME = re.compile(r"step_(\d+)$")

Arrays = dict[str, np.ndarray]


@dataclass
class Checkpoint:
    """All that a run needs to go on.

    Args:
        step: optimizer steps finished.
        model: the method's parameters and buffers.
        training: optimizer state (``optimizer/...``) and averaged weights (``ema/...``).
        state: small JSON values: best figure, running sums, position in metrics.jsonl, loss scale.
        path: the folder it was read from.
    """

    step: int
    model: Arrays
    training: Arrays
    state: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep_last: int | None) -> Path:
    """Write ``checkpoint`` below ``folder`` and delete all but the newest ``keep_last``.

    Checkpoints of later steps, which a run has when it went back to an earlier one, are set aside: they neither
    count as newest nor are they taken by a resume.

    Raises:
        CheckpointError: the disk is full or not writable; older checkpoints are untouched.
    """
    final = folder / f"step_{checkpoint.step:08d}"
    temporary = folder / f".tmp-{final.name}"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        write_safetensors_atomic(temporary / MODEL, checkpoint.model)
        write_safetensors_atomic(temporary / TRAINING, checkpoint.training)
        files = {name: _fingerprint(temporary / name) for name in (MODEL, TRAINING)}
        state = {"format": FORMAT, "step": checkpoint.step, "files": files, **checkpoint.state}
        with atomic_file(temporary / STATE) as stream:
            stream.write(json.dumps(state, indent=1).encode())
        shutil.rmtree(final, ignore_errors=True)  # the same step once more, after a resume
        os.replace(temporary, final)
        sync_folder(folder)
    except (OSError, CheckpointError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(
            f"cannot save {final}: {error}. Earlier checkpoints are untouched: free space or choose another "
            "output_dir, then go on with --resume auto"
        ) from error
    for step, later in _complete(folder):
        if step > checkpoint.step:
            aside = folder / f"given_up_{later.name}"
            logger.warning("%s is of a course that was given up: it is now %s", later, aside.name)
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(later, aside)
    if keep_last is not None:
        for _, old in list(_complete(folder))[keep_last:]:
            shutil.rmtree(old, ignore_errors=True)
    return final


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify the checkpoint folder ``path``.

    Raises:
        CheckpointError: it is not a checkpoint, incomplete, truncated or changed.
    """
    try:
        state = json.loads((path / STATE).read_text())
        if state.get("format") != FORMAT:
            raise CheckpointError(f"{path} has format {state.get('format')!r}, this version reads {FORMAT}")
        for name, expected in state.pop("files").items():
            found = _fingerprint(path / name)
            if found != expected:
                raise CheckpointError(
                    f"{path / name} is damaged: {found['bytes']} bytes, sha256 {found['sha256'][:12]}…; "
                    f"expected {expected['bytes']} bytes, {expected['sha256'][:12]}…"
                )
        model, training = load_file(path / MODEL), load_file(path / TRAINING)
        return Checkpoint(int(state["step"]), model, training, state, path)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path} is not a passl checkpoint: {Path(error.filename).name} is missing. "
            "Expected a folder such as output/…/checkpoints/step_00001000"
        ) from error
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from error


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint below ``folder`` that is intact; damaged ones are named and passed over.

    Raises:
        CheckpointError: there are checkpoints but none of them is intact.
    """
    damaged = []
    for _, path in _complete(folder):
        try:
            return load_checkpoint(path)
        except CheckpointError as error:
            logger.warning("%s. Trying the one before it.", error)
            damaged.append(path.name)
    if damaged:
        raise CheckpointError(
            f"none of the checkpoints in {folder} is intact ({', '.join(damaged)}): "
            "start again with another output_dir, or with --overwrite"
        )
    return None


def _complete(folder: Path) -> Iterator[tuple[int, Path]]:
    """(step, path) of every finished checkpoint, newest first."""
    found = [(int(m[1]), p) for p in folder.glob("step_*") if (m := _NAME.search(p.name)) and p.is_dir()]
    yield from sorted(found, reverse=True)


def _fingerprint(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
