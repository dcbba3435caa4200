# SPDX-License-Identifier: Apache-2.0
"""Randomness as a function of what is done, not of what was done before.

Nothing random is carried from step to step: each training step seeds the global generators
from (seed, step, rank), and each sample gets its own generator from (seed, epoch, position).
A resumed run, or one with another number of workers, therefore draws the same numbers, and
no generator state needs to be saved.
"""

from __future__ import annotations

import random

import numpy as np
import paddle

# Streams keep the draws for different purposes apart.
INIT, STEP, SHUFFLE, SAMPLE = range(4)


def generator(seed: int, stream: int, *counters: int) -> np.random.Generator:
    """A NumPy generator that depends on the arguments only."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, stream, *counters])))


def seed_everything(seed: int, stream: int, *counters: int) -> None:
    """Seed Paddle's, NumPy's and Python's global generators from the arguments."""
    value = int(np.random.SeedSequence([seed, stream, *counters]).generate_state(1, np.uint32)[0]) & 0x7FFFFFFF
    paddle.seed(value)
    np.random.seed(value)
    random.seed(value)
