# SPDX-License-Identifier: Apache-2.0
"""Where figures go: metrics.jsonl always, VisualDL where it is installed, curves as a PNG at the end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from passl.utils.log import logger
from passl.utils.seed import SAMPLE, generator


class Writer:
    """Appends records to ``metrics.jsonl`` and to VisualDL; only the main process has one.

    Args:
        folder: the run's output folder.
        visualdl: also write VisualDL event files, when the package is installed.
    """

    def __init__(self, folder: Path, visualdl: bool = True):
        self.path = folder / "metrics.jsonl"
        self._file = open(self.path, "ab")  # noqa: SIM115 - open as long as the run
        self._visual = _visualdl_writer(folder) if visualdl else None

    def write(self, kind: str, step: int, figures: dict[str, Any]) -> None:
        """Add one line: ``kind`` is train or eval, ``step`` the number of finished steps."""
        record = {"kind": kind, "step": step, **figures}
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()
        if self._visual is not None:
            for name, value in figures.items():
                if isinstance(value, (int, float)):
                    self._visual.add_scalar(f"{kind}/{name}", value, step)

    def samples(self, dataset: Any, seed: int, count: int = 8) -> None:
        """Show VisualDL what the model will see: a row for each of the first images, its views side by side.

        Rows of another size than the first, as images without a crop give them, are left out.
        """
        if self._visual is None:
            return
        rows = []
        for index in range(min(count, len(dataset))):
            sample = dataset.sample(index, generator(seed, SAMPLE, 0, index))
            views = sample["views"] if "views" in sample else [sample["image"]]
            views = [view for view in views if view.shape == views[0].shape]  # smaller crops do not fit in the row
            rows.append(np.concatenate(views, axis=2))  # [3, H, V * W]
        rows = [row for row in rows if row.shape == rows[0].shape]
        self._visual.add_image("train/samples", np.concatenate(rows, axis=1).transpose(1, 2, 0), 0)

    def position(self) -> int:
        """Bytes written so far, safely on disk: what a resume keeps."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def rewind(self, position: int) -> None:
        """Forget what was written after the checkpoint that a run goes on from, which may lie in another folder."""
        self._file.truncate(min(position, self._file.seek(0, os.SEEK_END)))
        self._file.seek(0, os.SEEK_END)

    def records(self) -> list[dict[str, Any]]:
        """Everything written so far."""
        self._file.flush()
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def close(self) -> None:
        """Flush and close."""
        self._file.close()
        if self._visual is not None:
            self._visual.close()


def _visualdl_writer(folder: Path):
    try:
        from visualdl import LogWriter
    except ImportError:
        logger.info("VisualDL is not installed, so no event files are written (pip install visualdl)")
        return None
    return LogWriter(logdir=str(folder / "visualdl"))
