# SPDX-License-Identifier: Apache-2.0
"""What happens to one batch, and the processes that do it.

A worker gets (slot, epoch, begin, [(position, index), ...]) over a pipe, writes the samples into rows
``begin`` and on of the slot, and answers which rows are good.  Slots are anonymous shared memory made before the fork:
nothing is pickled or copied on the way, no name is left behind when a process dies, and the
small /dev/shm of containers does not matter.  Where processes cannot be forked, arrays travel over the pipe.
"""

from __future__ import annotations

import atexit
import gc
import mmap
import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from passl.utils.errors import DataError

from .sample_reader import BadFile, SampleReader

CAN_FORK = sys.platform.startswith("linux") and "fork" in multiprocessing.get_all_start_methods()
Pairs = Sequence["tuple[int, int]"]


@dataclass(frozen=True)
class Field:
    """One array of a sample: ``view`` numbers the entries of a list."""

    key: str
    view: int | None
    shape: tuple[int, ...]
    dtype: np.dtype

    def of(self, sample: dict[str, Any]) -> Any:
        """This field's value in ``sample``."""
        return sample[self.key] if self.view is None else sample[self.key][self.view]


class Layout:
    """How the samples of a data set are laid out in a batch; all samples must be alike."""

    def __init__(self, sample: dict[str, Any]):
        self.fields: list[Field] = []
        for key, value in sample.items():
            several = isinstance(value, list)
            for view, part in enumerate(value if several else [value]):
                array = np.asarray(part)
                self.fields.append(Field(key, view if several else None, array.shape, array.dtype))

    def num_bytes(self, rows: int) -> int:
        """Size of a slot for ``rows`` samples; each array starts at a multiple of 64 bytes."""
        return sum(_aligned(rows * f.dtype.itemsize * int(np.prod(f.shape))) for f in self.fields)

    def arrays(self, rows: int, buffer: Any = None) -> list[np.ndarray]:
        """One array [rows, ...] for each field, within ``buffer`` or new."""
        if buffer is None:
            return [np.empty((rows, *f.shape), f.dtype) for f in self.fields]
        arrays, offset = [], 0
        for f in self.fields:
            count = rows * int(np.prod(f.shape))
            arrays.append(np.frombuffer(buffer, f.dtype, count, offset).reshape(rows, *f.shape))
            offset += _aligned(count * f.dtype.itemsize)
        return arrays

    def write(self, sample: dict[str, Any], arrays: Sequence[np.ndarray], row: int) -> None:
        """Store ``sample`` in ``row``.  Raises DataError where it is shaped differently from the first."""
        for f, array in zip(self.fields, arrays):
            try:
                value = np.asarray(f.of(sample))
            except (KeyError, IndexError):
                raise DataError(f"sample {sample.get('index')} lacks '{f.key}', which the first sample has") from None
            if value.shape != f.shape:
                raise DataError(
                    f"samples of one batch differ in size: '{f.key}' of sample {sample.get('index')} is "
                    f"{list(value.shape)}, of the first sample {list(f.shape)}; let the transforms end with a "
                    f"crop or a Resize to [height, width]"
                )
            array[row] = value

    def batch(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """The arrays under their keys, views as a list."""
        batch: dict[str, Any] = {}
        for f, array in zip(self.fields, arrays):
            if f.view is None:
                batch[f.key] = array
            else:
                batch.setdefault(f.key, []).append(array)
        return batch


def _aligned(size: int) -> int:
    return -(-size // 64) * 64


def fill(
    reader: SampleReader, layout: Layout, arrays: Sequence[np.ndarray], epoch: int, pairs: Pairs, begin: int = 0
) -> Filled:
    """Read the samples of ``pairs`` into the rows of ``arrays`` from ``begin`` on."""
    bad: list[BadFile] = []
    rows: list[int] = []
    for row, (position, index) in enumerate(pairs, start=begin):
        sample = reader.read(epoch, position, index, bad)
        if sample is not None:
            layout.write(sample, arrays, row)
            rows.append(row)
    all_good = range(begin, begin + len(pairs))  # a few bytes on the pipe, whatever the size of the batch
    return Filled(all_good if len(rows) == len(pairs) else rows, bad)


@dataclass
class Filled:
    """A worker's answer: the rows that hold a sample, unreadable files, an error, arrays where nothing is shared."""

    rows: Sequence[int] = ()
    bad: list[BadFile] = field(default_factory=list)
    error: Exception | None = None
    arrays: list[np.ndarray] | None = None


class WorkerPool:
    """Processes that fill slots.

    Args:
        num_workers: how many processes.
        num_slots: how many batches are in the making at a time.
        rows: samples of the largest batch.
    """

    def __init__(self, reader: SampleReader, layout: Layout, num_workers: int, num_slots: int, rows: int):
        self.slots: list[list[np.ndarray]] | None = None
        if CAN_FORK:
            buffers = [mmap.mmap(-1, max(layout.num_bytes(rows), 1)) for _ in range(num_slots)]
            self.slots = [layout.arrays(rows, buffer) for buffer in buffers]
        context: Any = multiprocessing.get_context("fork" if CAN_FORK else "spawn")
        self._owner = os.getpid()
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for _ in range(num_workers):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, reader, layout, self.slots, os.getpid()), name="passl-data", daemon=True
            )
            with warnings.catch_warnings():  # Python 3.12 warns of threads; the worker uses no lock of theirs
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        atexit.register(self.close)  # runs before multiprocessing's own exit, which would wait for the workers

    def __len__(self) -> int:
        return len(self._processes)

    def send(self, worker: int, slot: int, epoch: int, begin: int, pairs: Pairs) -> None:
        """Ask ``worker`` to fill rows ``begin`` and on of ``slot``."""
        try:
            self._pipes[worker].send((slot, epoch, begin, pairs))
        except OSError:
            raise self._death(worker) from None

    def receive(self, worker: int) -> Filled:
        """The answer to the oldest open request to ``worker``.  Raises DataError where it died instead."""
        pipe, process = self._pipes[worker], self._processes[worker]
        if pipe not in wait([pipe, process.sentinel]):
            raise self._death(worker)
        try:
            return pipe.recv()
        except (EOFError, OSError):
            raise self._death(worker) from None

    def _death(self, worker: int) -> DataError:
        process = self._processes[worker]
        process.join(1)
        code = process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"
        hint = "; the system kills processes when memory runs out: try a lower num_workers" if code == -9 else ""
        return DataError(f"the data worker with process id {process.pid} {how}{hint}")

    def close(self) -> None:
        """End all workers, at once; does nothing in a forked copy."""
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            if process.is_alive():
                process.kill()  # they hold no state and write no files
        for process in self._processes:
            process.join()
        self._pipes, self._processes = [], []


def _work(
    pipe: Connection, reader: SampleReader, layout: Layout, slots: list[list[np.ndarray]] | None, parent: int
) -> None:
    """Main function of a worker process; ends when its parent does."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group: the parent still needs
        signal.signal(number, signal.SIG_IGN)  # batches to finish its step and save
    gc.freeze()  # what was inherited is never garbage; looking at it would copy its pages
    while os.getppid() == parent:
        if not pipe.poll(1.0):
            continue
        try:
            slot, epoch, begin, pairs = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            if slots is None:
                arrays = layout.arrays(len(pairs))
                answer = fill(reader, layout, arrays, epoch, pairs)
                answer.arrays = [array[answer.rows] for array in arrays]
            else:
                answer = fill(reader, layout, slots[slot], epoch, pairs, begin)
        except DataError as error:
            answer = Filled(error=error)
        except Exception as error:
            told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            answer = Filled(error=RuntimeError(f"a data worker failed on samples {pairs[0]} to {pairs[-1]}\n{told}"))
        try:
            pipe.send(answer)
        except OSError:
            return
