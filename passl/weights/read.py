# SPDX-License-Identifier: Apache-2.0
"""Any weight file to named arrays, without its library and without running code from it."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from passl.utils.errors import CheckpointError

from .arrays import bfloat16_to_float32
from .pickle_table import Opaque, PickledArray
from .safetensors import read_safetensors
from .torch_file import LEGACY_MAGIC, StridedTensor, read_torch_legacy, read_torch_zip
from .unpickle import RestrictedUnpickler

# Top-level entries of a training checkpoint that hold no weights: never loaded.
_NOT_WEIGHTS = {
    *("optimizer", "optimizers", "optimizer_states", "optimizer_state_dict", "optim", "opt", "optimizer_state"),
    *("lr_scheduler", "lr_schedulers", "scheduler", "lr_sched", "scaler", "loss_scaler", "amp", "amp_scaler"),
    *("args", "config", "cfg", "meta", "hyper_parameters", "callbacks", "loops", "rng", "rng_state", "epoch"),
    *("StructuredToParameterName@@", "native_amp_scaling_state", "LR_Scheduler"),
}
_SPLIT = "UnpackBigParamInfor@@"  # Paddle's own spelling
_MAX_DEPTH = 32
_MAX_ENTRIES = 1_000_000

_FOREIGN = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself; run 'git lfs pull'"),
    (b"\x89HDF", "an HDF5 file (Keras); save the weights as .npz or .safetensors first"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"BZh", "a bzip2 archive; unpack it first"),
    (b"\xfd7zXZ", "an xz archive; unpack it first"),
    (b"\x93NUMPY", "a single NumPy array; save all arrays by name with numpy.savez"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG", "a PNG image"),
    (b"<", "a web page or XML file; the download probably failed"),
    (b"{", "a JSON file; a '...index.json' only lists the files that hold the weights"),
)
_EXPECTED = (
    "expected .safetensors, PyTorch .pth/.pt/.bin (zip or legacy), .npz, or Paddle .pdparams/.pdopt/.pd; "
    "the content decides, not the name"
)
# What Python's own readers raise on files whose inner lengths and offsets are wrong.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, MemoryError, OverflowError),
    *(ValueError, KeyError, TypeError, AttributeError, IndexError),
)


def read_arrays(path: str | Path, ignore_globals: Collection[str] = ()) -> dict[str, np.ndarray]:
    """All tensors of a weight file by name; nested containers are joined with dots (``model.head.weight``).

    Arrays are read-only and, where the file allows it, views of the mapped file: memory is used only
    for what is looked at.  bfloat16 becomes float32.  Entries that hold optimiser or scheduler state
    beside weights are skipped.

    Args:
        path: a .safetensors, PyTorch (zip or legacy), .npz or Paddle file; told apart by content.
        ignore_globals: ``module.name`` of pickled objects to skip instead of refusing the file.
    Raises:
        CheckpointError: the file is missing, empty, truncated, foreign, or would run code when unpickled.
    """
    path = Path(path)
    head = _head(path)
    try:
        if _opens_safetensors(path, head):  # first: its length may begin with any byte, a pickle's too
            return read_safetensors(path)[0]
        if head[:2] == b"PK":
            return _read_zip(path, ignore_globals)
        if head[:1] == b"\x80" or head[:1] in b"(}]c":
            return flatten(path, _read_pickle(path, ignore_globals))
        if head[8:9] == b"{":
            return read_safetensors(path)[0]  # says what is wrong with the length
    except CheckpointError:
        raise
    except _DAMAGE as error:
        raise CheckpointError(
            f"{path} is truncated or damaged ({type(error).__name__}: {error}): it has {path.stat().st_size} bytes; "
            f"copy or download it again. {_EXPECTED[0].upper()}{_EXPECTED[1:]}"
        ) from error
    raise CheckpointError(f"{path} is {_describe(path, head)}; {_EXPECTED}")


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as stream:
            head = stream.read(512)
    except IsADirectoryError:
        files = ", ".join(sorted(p.name for p in path.iterdir())[:8])
        raise CheckpointError(f"{path} is a folder (holding: {files or 'nothing'}); name the weight file") from None
    except OSError as error:
        raise CheckpointError(f"cannot open {path}: {error.strerror}; check the path") from error
    if not head:
        raise CheckpointError(f"{path} is empty (0 bytes); copy or download it again")
    return head


def _opens_safetensors(path: Path, head: bytes) -> bool:
    """Whether the file begins with the length of a header that it can hold, then a JSON object."""
    return head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= path.stat().st_size - 8


def _describe(path: Path, head: bytes) -> str:
    """What a file that is no weight file looks like."""
    if head[257:262] == b"ustar":
        return "a tar archive (or a PyTorch file from before 0.1.10); unpack it, or save it again with a newer PyTorch"
    for magic, description in _FOREIGN:
        if head.lstrip().startswith(magic):
            return description
    return f"no known weight file: it has {path.stat().st_size} bytes and starts with {head[:16]!r}"


def _read_zip(path: Path, ignore_globals: Collection[str]) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if names and all(name.endswith(".npy") for name in names):
        with np.load(path, allow_pickle=False) as arrays:
            return {name: _from_npy(arrays[name]) for name in arrays.files}
    return flatten(path, read_torch_zip(path, ignore_globals))


def _from_npy(array: np.ndarray) -> np.ndarray:
    """The array; JAX writes bfloat16 as two bytes of no type."""
    return bfloat16_to_float32(array.view(np.uint16)) if array.dtype == np.dtype("V2") else array


def _read_pickle(path: Path, ignore_globals: Collection[str]) -> Any:
    with open(path, "rb") as stream:
        content = RestrictedUnpickler(path, ignore=ignore_globals).load(stream)
    if content == LEGACY_MAGIC and isinstance(content, int):
        return read_torch_legacy(path, ignore_globals)
    return content


def flatten(path: str | Path, content: Any) -> dict[str, np.ndarray]:
    """The arrays in a tree of containers, by dotted path."""
    arrays: dict[str, np.ndarray] = {}
    for name, leaf in _leaves(path, content, "", 0, set()):
        if name in arrays or len(arrays) >= _MAX_ENTRIES:
            raise CheckpointError(f"{path}: two entries are called '{name}', or there are too many")
        arrays[name] = leaf.array()
        if isinstance(leaf, PickledArray) and arrays[name].dtype == np.uint16:  # how Paddle pickles bfloat16
            arrays[name] = bfloat16_to_float32(arrays[name])
    if not arrays:
        found = ", ".join(map(str, list(content)[:8])) if isinstance(content, dict) else type(content).__name__
        raise CheckpointError(f"{path} holds no tensors (found: {found}); {_EXPECTED}")
    return arrays


def _leaves(path, value: Any, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """(dotted name, array) for each array below ``value``; a container that is met again is not walked again."""
    if depth > _MAX_DEPTH:
        raise CheckpointError(f"{path}: containers are nested more than {_MAX_DEPTH} deep at '{name[:60]}'")
    if isinstance(value, (dict, list, tuple)) and value:
        if id(value) in seen:
            return
        seen.add(id(value))
    if isinstance(value, (StridedTensor, _Joined)) or (isinstance(value, PickledArray) and value.dtype is not None):
        yield name or "array", value
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], PickledArray):
        yield from _leaves(path, value[1], name, depth, seen)  # Paddle pickles a nested tensor as (its name, values)
    elif isinstance(value, Opaque) and isinstance(value.state, dict):
        yield from _leaves(path, value.state, name, depth, seen)
    elif isinstance(value, dict):
        entries = _join_split(path, value) if _SPLIT in value else value
        for key, item in entries.items():
            if depth > 0 or key not in _NOT_WEIGHTS:
                yield from _leaves(path, item, f"{name}.{key}" if name else str(key), depth + 1, seen)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _leaves(path, item, f"{name}.{index}" if name else str(index), depth + 1, seen)


class _Joined:
    """A large Paddle parameter that was saved in slices."""

    def __init__(self, parts: list[PickledArray], shape):
        self.parts, self.shape = parts, tuple(shape)

    def array(self) -> np.ndarray:
        return np.concatenate([part.array().reshape(-1) for part in self.parts]).reshape(self.shape)


def _join_split(path, entries: dict) -> dict:
    """Put the slices of large parameters together, as Paddle's own loader does (pickle protocols 2 and 3)."""
    entries = dict(entries)
    for name, info in entries.pop(_SPLIT).items():
        try:
            entries[name] = _Joined([entries.pop(part) for part in info["slices"]], info["OriginShape"])
        except KeyError as error:
            raise CheckpointError(f"{path}: slice {error} of the large parameter '{name}' is missing") from None
    return entries
