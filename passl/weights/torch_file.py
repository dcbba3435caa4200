# SPDX-License-Identifier: Apache-2.0
"""PyTorch's two file formats, read without PyTorch.

Since 1.6 a file is a zip: ``data.pkl`` describes the objects, ``data/<key>`` holds each storage.
Before, it was a stream: four pickles (a magic number, a version, the machine, the objects), the
list of storage keys, then each storage with its length in front.  In both, a tensor is a strided
window on a storage that several tensors may share.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from passl.utils.errors import CheckpointError

from .arrays import bfloat16_to_float32, map_file
from .pickle_table import Global, Opaque
from .unpickle import RestrictedUnpickler

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_MAX_EXPANDED = 2**28  # elements a zero-stride tensor may have beyond its storage

# NumPy's element type of each of PyTorch's; bfloat16 is read as bits and widened.
_DTYPES = {
    **{n: n for n in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")},
    **{n: n for n in ("uint16", "uint32", "uint64", "complex64", "complex128")},
    "bfloat16": "uint16",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}
_STORAGES = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Untyped": "uint8",
}
_PASSIVE = re.compile(
    rf"torch\.({'|'.join(_DTYPES)})|torch\.(cuda\.|storage\.)?({'|'.join(_STORAGES)})Storage"
    r"|torch\.(Tensor|nn\.parameter\.(Parameter|Buffer)|strided)"
)


class Storage:
    """A flat run of numbers in the file.

    Args:
        dtype: PyTorch's name of the element type.
        first: index of its first element within the stored run (legacy views).
        fetch: gives the stored run's bytes when they are needed.
    """

    def __init__(self, dtype: str, first: int, fetch: Callable[[], Any]):
        self.dtype, self.first, self.fetch = dtype, first, fetch


class StridedTensor:
    """A tensor as described by a file; :meth:`array` reads it."""

    def __init__(self, storage: Storage, offset: int, shape, stride, byteorder: str, dtype: str | None = None):
        self.shape = tuple(shape)
        self._storage, self._offset, self._stride, self._byteorder = storage, offset, tuple(stride), byteorder
        self._dtype = dtype or storage.dtype
        numbers = [offset, storage.first, *self.shape, *self._stride]
        if len(self.shape) != len(self._stride) or any(not isinstance(n, int) or n < 0 for n in numbers):
            raise ValueError(f"a tensor of shape {self.shape} with strides {self._stride} at {offset}")

    def array(self) -> np.ndarray:
        """The values: a view of the mapped file where they lie in order, a copy otherwise; bfloat16 as float32."""
        dtype = np.dtype(self._byteorder + np.dtype(_DTYPES[self._dtype]).str[1:])
        count = math.prod(self.shape)
        if count == 0:
            return np.empty(self.shape, dtype.newbyteorder("="))
        buffer = memoryview(self._storage.fetch()).cast("B")
        available = len(buffer) // dtype.itemsize
        first = self._storage.first + self._offset
        last = first + sum((size - 1) * step for size, step in zip(self.shape, self._stride))
        if last >= available or count > max(available, _MAX_EXPANDED):
            raise CheckpointError(f"a tensor of shape {self.shape} needs element {last}, its storage has {available}")
        flat = np.frombuffer(buffer, dtype, last - first + 1, first * dtype.itemsize)
        strides = [step * dtype.itemsize for step in self._stride]
        values = np.lib.stride_tricks.as_strided(flat, self.shape, strides, writeable=False)
        values = np.ascontiguousarray(values).astype(dtype.newbyteorder("="), copy=False).reshape(self.shape)
        return bfloat16_to_float32(values) if self._dtype == "bfloat16" else values


def _storage_dtype(kind: Any) -> str:
    name = kind.name if isinstance(kind, Global) else ""
    if not name.endswith("Storage") or name[: -len("Storage")] not in _STORAGES:
        raise CheckpointError(f"storages of type {kind} are not read")
    return _STORAGES[name[: -len("Storage")]]


def _unpickler(path, byteorder: str, persistent, ignore: Collection[str]) -> RestrictedUnpickler:
    """A restricted unpickler that also knows PyTorch's tensor functions."""

    def tensor(storage, offset, shape, stride, *_):
        return StridedTensor(storage, offset, shape, stride, byteorder)

    def typed(storage, offset, shape, stride, _grad, _hooks, dtype, *_):
        return StridedTensor(storage, offset, shape, stride, byteorder, dtype.name)

    def subclass(function, _kind, arguments, _state):
        return unpickler.call(function, arguments)

    calls: dict[str, Callable[..., Any]] = {
        "torch._utils._rebuild_tensor": tensor,
        "torch._utils._rebuild_tensor_v2": tensor,
        "torch._utils._rebuild_tensor_v3": typed,
        "torch._utils._rebuild_parameter": lambda data, *_: data,
        "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
        "torch._tensor._rebuild_from_type_v2": subclass,
        "torch.Size": lambda items=(): tuple(items),
        "torch.device": lambda *_: Opaque(Global("torch", "device")),
        "torch.jit._pickle.restore_type_tag": lambda value, _: value,
        **{f"torch.jit._pickle.build_{k}list": lambda items: items for k in ("int", "double", "bool", "tensor")},
    }
    unpickler = RestrictedUnpickler(path, calls, lambda n: _PASSIVE.fullmatch(n) is not None, persistent, ignore)
    return unpickler


def read_torch_zip(path: Path, ignore: Collection[str] = ()) -> Any:
    """The object in a zip-format file, its tensors as :class:`StridedTensor`."""
    archive = zipfile.ZipFile(path)
    entries = {info.filename: info for info in archive.infolist()}
    pickle_name = next((name for name in entries if name.split("/")[1:] == ["data.pkl"] or name == "data.pkl"), None)
    if pickle_name is None:
        raise CheckpointError(f"{path} is a zip without data.pkl, so no PyTorch file; it holds {sorted(entries)[:5]}")
    root = pickle_name[: -len("data.pkl")]
    big = f"{root}byteorder" in entries and archive.read(f"{root}byteorder").strip() == b"big"
    data = map_file(path)
    cache: dict[str, Any] = {}

    def fetch(key: str):
        if key not in cache:
            info = entries.get(f"{root}data/{key}")
            if info is None:
                raise CheckpointError(f"{path}: storage data/{key} is missing; the file was damaged or edited")
            cache[key] = _stored_bytes(path, archive, data, info)
        return cache[key]

    def persistent(identity):
        kind, storage_type, key, *_ = identity
        if kind != "storage":
            raise ValueError(f"a persistent id of kind {kind!r}")
        return Storage(_storage_dtype(storage_type), 0, lambda: fetch(str(key)))

    return _unpickler(path, ">" if big else "<", persistent, ignore).load(io.BytesIO(archive.read(pickle_name)))


def _stored_bytes(path, archive: zipfile.ZipFile, data, info: zipfile.ZipInfo):
    """The entry's bytes, checked against its CRC: a view of the mapped file where it is not compressed."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        return archive.read(info)
    name_length, extra_length = struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30])
    begin = info.header_offset + 30 + name_length + extra_length
    content = memoryview(data)[begin : begin + info.file_size]
    if info.CRC and zlib.crc32(content) != info.CRC:
        raise CheckpointError(f"{path} is damaged: {info.filename} does not match its checksum; copy it again")
    return content


def read_torch_legacy(path: Path, ignore: Collection[str] = ()) -> Any:
    """The object in a file of the format before PyTorch 1.6, its tensors as :class:`StridedTensor`."""
    dtypes: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    data = map_file(path)

    def fetch(key: str):
        begin, size = places[key]
        return memoryview(data)[begin : begin + size]

    def persistent(identity):
        kind, storage_type, key, _device, _count, *view = identity
        if kind != "storage":
            raise ValueError(f"a persistent id of kind {kind!r}")
        dtypes[key] = _storage_dtype(storage_type)
        first = view[0][1] if view and view[0] is not None else 0
        return Storage(dtypes[key], first, lambda: fetch(key))

    with open(path, "rb") as stream:
        header = _unpickler(path, "<", None, ignore)
        _magic, version, machine = header.load(stream), header.load(stream), header.load(stream)
        if version != 1001:
            raise CheckpointError(f"{path}: version {version} of PyTorch's legacy format, expected 1001")
        byteorder = "<" if machine.get("little_endian", True) else ">"
        content = _unpickler(path, byteorder, persistent, ignore).load(stream)
        keys = header.load(stream)
        position = stream.tell()
    for key in keys:
        itemsize = np.dtype(_DTYPES[dtypes[key]]).itemsize
        size = int.from_bytes(data[position : position + 8], "little" if byteorder == "<" else "big") * itemsize
        if position + 8 + size > len(data):
            raise CheckpointError(
                f"{path} is truncated: storage {key} ends at byte {position + 8 + size}, the file has {len(data)}; "
                "copy or download it again"
            )
        places[key] = position + 8, size
        position += 8 + size
    return content
