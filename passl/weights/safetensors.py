# SPDX-License-Identifier: Apache-2.0
"""The safetensors format: eight bytes with the header's length, a JSON header, then the raw tensors.

Format: https://huggingface.co/docs/safetensors/index#format

Read and written here, not through the package of that name, because NumPy has no bfloat16 and
because reading maps the file instead of copying it.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from passl.utils.errors import CheckpointError

DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_NAMES: dict[Any, str] = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
_MAX_HEADER = 100_000_000


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """float32 values of bfloat16 numbers given as uint16; exact, since bfloat16 is a float32's upper half."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def map_file(path: str | Path) -> mmap.mmap:
    """The file's bytes, mapped read-only; the operating system loads and drops pages as needed."""
    with open(path, "rb") as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def read_safetensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and metadata of a file; the arrays are read-only views of the mapped file.

    bfloat16 tensors become float32 copies.

    Raises:
        CheckpointError: the file is truncated, its header is no safetensors header or contradicts the data.
    """
    data = map_file(path)
    header, begin = _read_header(path, data)
    metadata = header.pop("__metadata__", {})
    arrays = {name: _read_tensor(path, data, begin, name, entry) for name, entry in header.items()}
    return arrays, metadata


def read_metadata(path: str | Path) -> dict[str, str]:
    """Only the metadata of a safetensors file."""
    return _read_header(path, map_file(path))[0].get("__metadata__", {})


def _read_header(path, data) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_MAX_HEADER, len(data) - 8):
        raise CheckpointError(
            f"{path} is truncated or no safetensors file: its header should have {length} bytes, "
            f"the whole file has {len(data)}; copy or download it again"
        )
    try:
        header = json.loads(data[8 : 8 + length])
    except ValueError as error:
        raise CheckpointError(f"{path}: the safetensors header is not valid JSON ({error}); copy it again") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: the safetensors header must be a JSON object, got {type(header).__name__}")
    return header, 8 + length


def _read_tensor(path, data, begin, name, entry) -> np.ndarray:
    try:
        kind, shape, (first, last) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        numbers = [*shape, first, last]
    except (TypeError, KeyError, ValueError):
        raise CheckpointError(f"{path}: header entry of '{name}' is malformed: {entry!r}") from None
    if kind != "BF16" and kind not in DTYPES:
        raise CheckpointError(
            f"{path}: '{name}' has dtype {kind}, which NumPy cannot hold; save it as float32, float16 or bfloat16"
        )
    dtype = np.dtype(np.uint16 if kind == "BF16" else DTYPES[kind])
    count = math.prod(shape)
    if any(not isinstance(n, int) or n < 0 for n in numbers) or last - first != count * dtype.itemsize:
        raise CheckpointError(f"{path}: '{name}' claims shape {shape} of {kind} but bytes {first} to {last}")
    if begin + last > len(data):
        raise CheckpointError(
            f"{path} is truncated: '{name}' ends at byte {begin + last}, the file has {len(data)}; copy it again"
        )
    array = np.frombuffer(data, dtype, count, begin + first) if count else np.empty(0, dtype)
    return (bfloat16_to_float32(array) if kind == "BF16" else array).reshape(shape)


def write_safetensors(stream: BinaryIO, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write NumPy arrays or Paddle tensors to ``stream``, one at a time, in a reproducible order.

    bfloat16 tensors keep their bits.  The larger element types come first, so that all are aligned.
    """
    entries = sorted(((*_describe(name, value), name) for name, value in arrays.items()), key=lambda e: (-e[1], e[3]))
    header: dict[str, Any] = {"__metadata__": {str(k): str(v) for k, v in metadata.items()}} if metadata else {}
    offset = 0
    for kind, itemsize, shape, name in entries:
        size = math.prod(shape) * itemsize
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    stream.write(len(text).to_bytes(8, "little") + text)
    for *_, name in entries:
        array = np.ascontiguousarray(_to_numpy(arrays[name]))
        stream.write(array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data)


def _describe(name: str, value) -> tuple[str, int, tuple[int, ...]]:
    """(safetensors dtype, bytes of an element, shape) of an array or tensor, without copying it."""
    if not isinstance(value, (np.ndarray, np.generic)) and str(value.dtype).endswith("bfloat16"):
        return "BF16", 2, tuple(value.shape)
    dtype = np.dtype(value.dtype if isinstance(value, (np.ndarray, np.generic)) else str(value.dtype).split(".")[-1])
    native = dtype.newbyteorder("=")
    if native not in _NAMES:
        raise CheckpointError(f"'{name}' has dtype {dtype}, which safetensors cannot hold; expected {sorted(DTYPES)}")
    return _NAMES[native], dtype.itemsize, tuple(value.shape)


def _to_numpy(value) -> np.ndarray:
    return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value.numpy())
