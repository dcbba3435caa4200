# SPDX-License-Identifier: Apache-2.0
"""Averages between two log lines, and the progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from tqdm import tqdm


class Average:
    """Mean of each logged scalar since the last reset; a checkpoint holds its sums."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.sums: dict[str, float] = {}
        self.count = 0

    def add(self, figures: dict[str, float]) -> None:
        """Take in one step's scalars."""
        for name, value in figures.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.count += 1

    def pop(self) -> dict[str, float]:
        """The means; starts anew."""
        means = {name: total / self.count for name, total in self.sums.items()}
        self.reset()
        return means

    def state(self) -> dict[str, Any]:
        """JSON values for a checkpoint."""
        return {"sums": self.sums, "count": self.count}

    def load(self, state: dict[str, Any]) -> None:
        """Take over the sums of a checkpoint."""
        self.sums, self.count = dict(state["sums"]), state["count"]


class Clock:
    """Speed and the share of time spent waiting for data, since the last reset."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start timing anew."""
        self.begin, self.waited, self.images = time.perf_counter(), 0.0, 0

    def waiting(self, batches: Iterable) -> Iterator:
        """Pass ``batches`` through and note how long each took to come."""
        iterator = iter(batches)
        while True:
            begin = time.perf_counter()
            batch = next(iterator, None)
            self.waited += time.perf_counter() - begin
            if batch is None:
                return
            yield batch

    def pop(self) -> dict[str, float]:
        """Images per second and percent of time waiting for data; starts anew."""
        elapsed = max(time.perf_counter() - self.begin, 1e-9)
        figures = {"images_per_second": self.images / elapsed, "data_wait_percent": 100 * self.waited / elapsed}
        self.reset()
        return figures


def progress_bar(total: int, done: int, shown: bool) -> tqdm:
    """A bar with ETA on a terminal; nothing elsewhere, where plain log lines serve better."""
    return tqdm(
        total=total,
        initial=done,
        unit="step",
        dynamic_ncols=True,
        leave=False,
        disable=not (shown and sys.stderr.isatty()),
    )
