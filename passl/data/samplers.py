# SPDX-License-Identifier: Apache-2.0
"""Which samples make up which batch, as a pure function of (seed, epoch, rank).

A batch is a list of (position, index): ``position`` counts the samples of the epoch over all
processes and seeds the sample's augmentation; ``index`` says which image it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from passl.utils.errors import DataError
from passl.utils.seed import SHUFFLE, generator


class EpochSampler:
    """Batches for training: the same global batches however many processes share them.

    Global batch g is a slice of one permutation of the whole data set, and each process takes its
    contiguous part of it: two processes with half the batch size together see what one process sees.
    With ``drop_last=False`` the last global batch is cut to a multiple of ``world_size``, so that
    all processes have equal shares and the mean of their losses is the mean over the batch; the at
    most ``world_size - 1`` images left out are others in each epoch.

    Args:
        num_samples: size of the data set.
        batch_size: samples in a batch of one process.
        world_size: number of processes.
        rank: this process, from 0.
        seed: of the run.
        shuffle: draw a new order for each epoch.
        drop_last: leave out a last batch that is not full.
    """

    keeps_batch_size = True

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        world_size: int = 1,
        rank: int = 0,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = True,
    ):
        self.num_samples = num_samples
        self.batch_size = _check_batch_size(batch_size)
        self.world_size = world_size
        self.rank = rank
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = drop_last
        full, rest = divmod(num_samples, batch_size * world_size)
        self._last_share = 0 if drop_last else rest // world_size
        self._num_batches = full + bool(self._last_share)
        if not self._num_batches:
            raise DataError(
                f"an epoch has no batch: the data set has {num_samples} images, one global batch takes "
                f"{batch_size * world_size} (batch_size {batch_size} x {world_size} processes); "
                f"lower dataloader.train.batch_size or set dataloader.train.drop_last: false"
            )

    def __len__(self) -> int:
        return self._num_batches

    def batches(self, epoch: int = 0, start_batch: int = 0) -> Iterator[list[tuple[int, int]]]:
        """This process's batches of ``epoch``, from number ``start_batch`` on."""
        order = np.arange(self.num_samples)
        if self.shuffle:
            order = generator(self.seed, SHUFFLE, epoch).permutation(self.num_samples)
        for batch in range(start_batch, len(self)):
            begin = batch * self.batch_size * self.world_size
            full = begin + self.batch_size * self.world_size <= self.num_samples
            share = self.batch_size if full else self._last_share
            begin += self.rank * share
            yield list(zip(range(begin, begin + share), order[begin : begin + share].tolist()))


class EvalSampler:
    """Batches for evaluation: process r takes images r, r + world_size, ... and none is repeated or left out.

    Processes may differ by one image and by one batch; whoever gathers results must allow for that.

    Args:
        num_samples: size of the data set.
        batch_size: samples in a batch of one process.
        world_size: number of processes.
        rank: this process, from 0.
    """

    keeps_batch_size = False

    def __init__(self, num_samples: int, batch_size: int, world_size: int = 1, rank: int = 0):
        self.num_samples = num_samples
        self.batch_size = _check_batch_size(batch_size)
        self.world_size = world_size
        self.rank = rank

    def __len__(self) -> int:
        share = len(range(self.rank, self.num_samples, self.world_size))
        return -(-share // self.batch_size)

    def batches(self, epoch: int = 0, start_batch: int = 0) -> Iterator[list[tuple[int, int]]]:
        """This process's batches, from number ``start_batch`` on; the same in every epoch."""
        own = range(self.rank, self.num_samples, self.world_size)
        for batch in range(start_batch, len(self)):
            yield [(index, index) for index in own[batch * self.batch_size : (batch + 1) * self.batch_size]]


def _check_batch_size(batch_size: int) -> int:
    if batch_size < 1:
        raise DataError(f"batch_size={batch_size}, expected at least 1")
    return batch_size
