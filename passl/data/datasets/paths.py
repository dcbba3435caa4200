# SPDX-License-Identifier: Apache-2.0
"""File names in bulk, and folders as seen in error messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np

from passl.utils.errors import DataError


class PathList(Sequence[str]):
    """A list of file names in two arrays.

    A million Python strings cost 100 MB in each worker, since reading one writes its reference count
    and so copies the memory page; arrays stay shared.
    """

    def __init__(self, paths: Iterable[str]):
        encoded = [os.fsencode(path) for path in paths]
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        self._bytes = np.frombuffer(b"".join(encoded), np.uint8)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return os.fsdecode(self._bytes[self._ends[index] : self._ends[index + 1]].tobytes())


def check_folder(root: str, expected: str) -> str:
    """``root`` with ``~`` expanded.  Raises DataError, saying what is there instead, unless it is a folder."""
    root = os.path.expanduser(str(root))
    if not os.path.isdir(root):
        what = "is a file" if os.path.exists(root) else f"does not exist{_nearest_parent(root)}"
        raise DataError(f"the data folder {root} {what}\nexpected: {expected}")
    return root


def found(folder: str, limit: int = 6) -> str:
    """What lies in ``folder``, in one line."""
    names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in os.scandir(folder))
    if not names:
        return f"found: {folder} is empty"
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return f"found in {folder}: {', '.join(names[:limit])}{more}"


def _nearest_parent(path: str) -> str:
    parent = os.path.dirname(os.path.abspath(path))
    while not os.path.isdir(parent) and parent != os.path.dirname(parent):
        parent = os.path.dirname(parent)
    return f" ({found(parent)})"
