# SPDX-License-Identifier: Apache-2.0
"""Files that are either complete or not there.

The bytes go to a temporary name in the same folder and reach the disk before the file gets its
name; a crash, a kill or a full disk at any moment leaves the previous file as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from passl.utils.errors import CheckpointError

from .safetensors import write_safetensors

TEMPORARY_SUFFIX = ".tmp"


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """A binary stream whose content gets the name ``path`` only once the block has ended without error.

    A killed process leaves at most ``.<name>.<pid>.tmp`` behind, which nothing reads.

    Raises:
        CheckpointError: the disk is full or the folder cannot be written; the temporary file is removed.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        _remove(temporary)
        raise CheckpointError(
            f"could not write {path}: {error.strerror or error}; {_free_space(path.parent)}. "
            "What was saved before is untouched: free some space or choose another folder, then save again"
        ) from error
    except BaseException:
        _remove(temporary)
        raise


def write_safetensors_atomic(
    path: str | Path, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Save NumPy arrays or Paddle tensors under ``path``, all or nothing.

    Args:
        path: the file to create or replace; missing folders are created.
        arrays: tensor by name; bfloat16 tensors keep their bits.
        metadata: strings stored in the file's header.
    Raises:
        CheckpointError: the disk is full or the folder cannot be written.
    """
    with atomic_file(path) as stream:
        write_safetensors(stream, arrays, metadata)


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can open folders."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _free_space(folder: Path) -> str:
    """How much room is left for files in ``folder``, in words."""
    with suppress(OSError):
        while not folder.exists():
            folder = folder.parent
        return f"{shutil.disk_usage(folder).free / 2**20:.1f} MiB free in {folder}"
    return f"{folder} is not accessible"
