# SPDX-License-Identifier: Apache-2.0
"""The folder of a run: what it already holds, and making it ready."""

from __future__ import annotations

import shutil
from pathlib import Path

from passl.utils import distributed
from passl.utils.config import Config
from passl.utils.errors import CheckpointError, ConfigError, did_you_mean
from passl.utils.log import logger

from .checkpoint import Checkpoint, latest_checkpoint, load_checkpoint


def find_checkpoint(output_dir: Path, resume: str | None) -> Checkpoint | None:
    """The checkpoint to go on from, read and verified; the same in every process.

    Raises:
        CheckpointError: no such folder, a damaged checkpoint, or machines that do not see the same checkpoints.
    """
    found = None if resume is None else _find_checkpoint(output_dir, resume)
    steps = distributed.all_gather_object(-1 if found is None else found.step)
    if len(set(steps)) > 1:
        raise CheckpointError(
            f"--resume {resume}: the processes found checkpoints of the steps {steps} in {output_dir} (-1 is none); "
            "output_dir must lie on a disk that all machines share"
        )
    return found


def _find_checkpoint(output_dir: Path, resume: str) -> Checkpoint | None:
    if resume == "auto":
        return latest_checkpoint(output_dir / "checkpoints")
    path = Path(resume)
    if not path.is_dir():
        near = [str(p) for p in path.parent.glob("step_*")]
        raise CheckpointError(
            f"--resume {resume}: no such folder{did_you_mean(resume, near)}. Give a folder such as "
            f"{output_dir}/checkpoints/step_00001000, or auto"
        )
    return load_checkpoint(path)


def prepare_folder(output_dir: Path, cfg: Config, fresh: bool, overwrite: bool, resume: str | None) -> None:
    """Make ``output_dir`` and write the resolved config; never over another run unasked."""
    try:
        checkpoints = output_dir / "checkpoints"
        if fresh and resume is None and any(checkpoints.glob("step_*")):
            if not overwrite:
                raise ConfigError(
                    f"output_dir: {output_dir} holds a run with checkpoints. Go on with --resume auto, choose another "
                    "place with -o output_dir=…, or delete that run with --overwrite"
                )
            shutil.rmtree(checkpoints)
            for name in ("best.safetensors", "final.safetensors"):
                (output_dir / name).unlink(missing_ok=True)
        output_dir.mkdir(parents=True, exist_ok=True)
        for leftover in checkpoints.glob(".tmp-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        written = output_dir / "config.yaml"
        if not fresh and written.exists():
            for line in cfg.differences(written):
                logger.warning("config differs from that of the resumed run: %s", line)
        written.write_text(cfg.to_yaml())
    except OSError as error:
        raise ConfigError(
            f"output_dir: cannot write to {output_dir} ({error.strerror}): choose another with -o output_dir=…"
        ) from error
