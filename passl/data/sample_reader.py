# SPDX-License-Identifier: Apache-2.0
"""Reading one sample: its own random numbers, and what happens when its file cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from passl.utils.errors import DataError
from passl.utils.seed import SAMPLE, generator

from .datasets.image import UnreadableImage


class SampleRandom:
    """One random generator that jumps to a place given by (seed, epoch, position).

    A counter-based generator jumps; making a new one for each sample costs as much as cropping a small image.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._epoch: int | None = None
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state

    def at(self, epoch: int, position: int) -> np.random.Generator:
        """The generator, set to the start of this sample's own stream; valid until the next call."""
        if epoch != self._epoch:
            key = generator(self._seed, SAMPLE, epoch).integers(0, 2**64, 2, np.uint64)
            self._state["state"]["key"] = key
            self._epoch = epoch
        self._state["state"]["counter"] = np.array([0, position, 0, 0], np.uint64)
        self._bits.state = self._state
        return self._generator


@dataclass
class BadFile:
    """A sample that could not be read during an epoch."""

    position: int
    index: int
    path: str
    reason: str


class SampleReader:
    """Reads samples, and deals with unreadable files.

    Args:
        dataset: what is read.
        seed: of the augmentations.
        on_bad_file: "fail" raises; "skip" goes on without the file.
        replace: a skipped sample is replaced by the next readable one; otherwise it is left out.
    """

    max_replacements = 100

    def __init__(self, dataset: Any, seed: int, on_bad_file: str, replace: bool):
        self.dataset = dataset
        self.random = SampleRandom(seed)
        self.skips = on_bad_file == "skip"
        self.replaces = replace

    def read(self, epoch: int, position: int, index: int, bad: list[BadFile]) -> dict[str, Any] | None:
        """The sample, or None where it is left out; what went wrong is added to ``bad``."""
        tries = self.max_replacements if self.replaces else 1
        for step in range(tries):
            here = (index + step) % len(self.dataset)
            try:
                return self._sample(epoch, position, here)
            except UnreadableImage as error:
                if not self.skips:
                    raise
                bad.append(BadFile(position, here, error.path, error.reason))
        if self.replaces:
            raise DataError(f"{tries} images in a row cannot be read, the last one is {bad[-1].path}: {bad[-1].reason}")
        return None

    def _sample(self, epoch: int, position: int, index: int) -> dict[str, Any]:
        if hasattr(self.dataset, "sample"):
            return self.dataset.sample(index, self.random.at(epoch, position))
        return self.dataset[index]
