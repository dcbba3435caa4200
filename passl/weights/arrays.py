# SPDX-License-Identifier: Apache-2.0
"""Bytes of files as NumPy arrays: what the readers of all formats share."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """float32 values of bfloat16 numbers given as uint16; exact, since bfloat16 is a float32's upper half."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def map_file(path: str | Path) -> mmap.mmap:
    """The file's bytes, mapped read-only; the operating system loads and drops pages as needed."""
    with open(path, "rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
