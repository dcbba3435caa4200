# SPDX-License-Identifier: Apache-2.0
"""Batches of uint8 images as Paddle tensors, the same ones for any number of workers."""

from __future__ import annotations

import itertools
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import paddle

from passl.utils import distributed
from passl.utils.errors import DataError

from .sample_reader import BadFile, SampleReader
from .samplers import EpochSampler, EvalSampler
from .worker import Layout, Pairs, WorkerPool, fill


class Loader:
    """Turns a sampler's batches of indices into batches of tensors.

    A batch is a function of (seed, epoch, batch number): the number of workers, what was read before and where
    an epoch was resumed do not matter.  Workers are started with the first epoch and stay; they see
    the data set as it was then, so call ``close()`` after changing it.

    Args:
        dataset: has ``__len__`` and ``sample(index, rng)`` (or ``__getitem__``) that returns a dictionary of
            arrays, numbers and lists of arrays, shaped alike in all samples.
        sampler: gives this process's batches of (position, index).
        num_workers: processes that read and transform; 0 does it in this one, "auto" leaves one core free.
        seed: of the run; augmentations follow from it.
        on_bad_file: "fail" stops at an unreadable image; "skip" counts it in ``bad_files`` and, in training, takes
            the next readable one in its place.
        prefetch: batches that workers prepare ahead.
        batch_transforms: what to do to a batch on the device; kept here for those who use the batches.
    """

    def __init__(
        self,
        dataset: Any,
        sampler: EpochSampler | EvalSampler,
        num_workers: int | str = 0,
        seed: int = 0,
        on_bad_file: str = "fail",
        prefetch: int = 2,
        batch_transforms: Sequence[Callable] = (),
    ):
        if on_bad_file not in ("fail", "skip"):
            raise DataError(f"on_bad_file='{on_bad_file}', expected 'fail' or 'skip'")
        if prefetch < 1:
            raise DataError(f"prefetch={prefetch}, expected at least 1")
        self.dataset = dataset
        self.sampler = sampler
        self.num_workers = min(resolve_num_workers(num_workers), sampler.batch_size)
        self.prefetch = prefetch
        self.batch_transforms = list(batch_transforms)
        self.bad_files: list[BadFile] = []
        self._reader = SampleReader(dataset, seed, on_bad_file, replace=sampler.keeps_batch_size)
        self._probe = SampleReader(dataset, seed, on_bad_file, replace=True)
        self._layout: Layout | None = None
        self._pool: WorkerPool | None = None
        self._open: deque[tuple[int, list[int]]] = deque()  # slots in the making and who works on them
        self._run = 0

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.iter_epoch(0)

    def iter_epoch(self, epoch: int, start_batch: int = 0) -> Iterator[dict[str, Any]]:
        """Batches of ``epoch`` from number ``start_batch`` on; ``bad_files`` starts empty and grows on the way.

        Shape: ``image`` (or each of ``views``) uint8 [B, 3, H, W], ``label`` and ``index`` int64 [B].
        Raises:
            DataError: an unreadable file under on_bad_file="fail", samples that differ in size, a worker that died.
        """
        self.bad_files = []
        self._run += 1
        batches = self.sampler.batches(epoch, start_batch)
        return self._with_workers(epoch, batches) if self.num_workers else self._alone(epoch, batches)

    def _alone(self, epoch: int, batches: Iterator[Pairs]) -> Iterator[dict[str, Any]]:
        for pairs in batches:
            layout = self._find_layout(epoch, pairs)
            arrays = layout.arrays(len(pairs))
            filled = fill(self._reader, layout, arrays, epoch, pairs)
            self.bad_files += filled.bad
            if filled.rows:
                yield _to_tensors(layout, arrays, filled.rows)

    def _with_workers(self, epoch: int, batches: Iterator[Pairs]) -> Iterator[dict[str, Any]]:
        run = self._run
        first = next(batches, None)
        if first is None:
            return
        layout = self._find_layout(epoch, first)
        pool = self._start(layout)
        while self._open:  # left over where the caller gave up the last epoch half-way
            self._collect(pool, layout)
        batches, free = itertools.chain([first], batches), deque(range(self.prefetch))
        self._request(pool, epoch, batches, free)
        while self._open:
            slot, arrays, rows, bad = self._collect(pool, layout)
            self.bad_files += bad
            batch = _to_tensors(layout, arrays, rows) if rows else None
            free.append(slot)
            self._request(pool, epoch, batches, free)  # before the caller computes
            if batch is not None:
                yield batch
                if run != self._run:
                    raise RuntimeError("this epoch has ended: another one was started on the same loader")

    def _find_layout(self, epoch: int, pairs: Pairs) -> Layout:
        if self._layout is None:
            sample = self._probe.read(epoch, *pairs[0], bad=[])
            assert sample is not None
            self._layout = Layout(sample)
        return self._layout

    def _start(self, layout: Layout) -> WorkerPool:
        if self._pool is None:
            self._pool = WorkerPool(self._reader, layout, self.num_workers, self.prefetch, self.sampler.batch_size)
            self._finalizer = weakref.finalize(self, self._pool.close)
        return self._pool

    def _request(self, pool: WorkerPool, epoch: int, batches: Iterator[Pairs], free: deque[int]) -> None:
        """Let the workers share each of the next batches until no slot is free."""
        while free:
            pairs = next(batches, None)
            if pairs is None:
                return
            slot, workers = free.popleft(), []
            for worker in range(len(pool)):
                begin, end = (len(pairs) * part // len(pool) for part in (worker, worker + 1))
                if begin < end:
                    pool.send(worker, slot, epoch, begin, pairs[begin:end])
                    workers.append(worker)
            self._open.append((slot, workers))

    def _collect(self, pool: WorkerPool, layout: Layout) -> tuple[int, list[np.ndarray], list[int], list[BadFile]]:
        """The oldest open slot, its arrays, the rows that hold a sample, and the files that could not be read."""
        slot, workers = self._open.popleft()
        try:
            answers = [pool.receive(worker) for worker in workers]
            errors = [answer.error for answer in answers if answer.error is not None]
            if errors:
                raise errors[0]
        except BaseException:
            self.close()
            raise
        rows = [row for answer in answers for row in answer.rows]
        bad = [file for answer in answers for file in answer.bad]
        if pool.slots is not None:
            return slot, pool.slots[slot], rows, bad
        parts = [answer.arrays for answer in answers if answer.arrays is not None]
        return slot, [np.concatenate(arrays) for arrays in zip(*parts)], list(range(len(rows))), bad

    def close(self) -> None:
        """End the workers; the next epoch starts new ones."""
        if self._pool is not None:
            self._finalizer()
        self._pool, self._layout = None, None
        self._open.clear()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        batches = f"{len(self):,} batches of {self.sampler.batch_size}"
        return f"Loader({self.dataset!r}, {batches}, {self.num_workers} workers)"


def _to_tensors(layout: Layout, arrays: Sequence[np.ndarray], rows: Sequence[int]) -> dict[str, Any]:
    """The good ``rows`` as tensors that own their memory."""
    all_good = len(rows) == rows[-1] + 1
    chosen: Any = slice(len(rows)) if all_good else np.asarray(rows)
    return layout.batch([paddle.to_tensor(array[chosen]) for array in arrays])


def train_loader(
    dataset: Any,
    batch_size: int,
    num_workers: int | str = "auto",
    shuffle: bool = True,
    drop_last: bool = True,
    seed: int = 0,
    on_bad_file: str = "fail",
    prefetch: int = 2,
    batch_transforms: Sequence[Callable] = (),
) -> Loader:
    """Loader for this process's part of the training batches; ``batch_size`` is that of one process."""
    world, rank = distributed.world_size(), distributed.rank()
    sampler = EpochSampler(len(dataset), batch_size, world, rank, seed, shuffle, drop_last)
    return Loader(dataset, sampler, num_workers, seed, on_bad_file, prefetch, batch_transforms)


def eval_loader(
    dataset: Any,
    batch_size: int,
    num_workers: int | str = "auto",
    seed: int = 0,
    on_bad_file: str = "fail",
    prefetch: int = 2,
    batch_transforms: Sequence[Callable] = (),
) -> Loader:
    """Loader for this process's part of an evaluation: over all processes each image comes exactly once."""
    sampler = EvalSampler(len(dataset), batch_size, distributed.world_size(), distributed.rank())
    return Loader(dataset, sampler, num_workers, seed, on_bad_file, prefetch, batch_transforms)


def resolve_num_workers(num_workers: int | str) -> int:
    """The number itself, or for "auto" this process's share of the cores less one, at most 16."""
    if num_workers == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(0, min(16, cores // distributed.local_size() - 1))
    if not isinstance(num_workers, int) or num_workers < 0:
        raise DataError(f"num_workers={num_workers!r}, expected a number from 0 or 'auto'")
    return num_workers
