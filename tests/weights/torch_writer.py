# SPDX-License-Identifier: Apache-2.0
"""Writes PyTorch files by hand, opcode by opcode, so that reading them is tested without PyTorch."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C
STORAGES = {"f4": "Float", "f8": "Double", "f2": "Half", "i8": "Long", "i4": "Int", "u1": "Byte", "b1": "Bool"}


@dataclass
class Global:
    module: str
    name: str


@dataclass
class Call:
    """``function(*arguments)``, and what is set on the result afterwards."""

    function: Global
    arguments: tuple
    state: Any = None


@dataclass
class Storage:
    key: str
    kind: str
    data: np.ndarray


def tensor(storage: Storage, shape, stride, offset=0) -> Call:
    arguments = (storage, offset, tuple(shape), tuple(stride), False, Call(Global("collections", "OrderedDict"), ()))
    return Call(Global("torch._utils", "_rebuild_tensor_v2"), arguments)


def contiguous(key: str, array: np.ndarray, kind: str | None = None) -> Call:
    """A tensor with a storage of its own; ``kind`` names a storage whose bits are given as integers."""
    stride = [int(np.prod(array.shape[i + 1 :])) for i in range(array.ndim)]
    return tensor(Storage(key, kind or STORAGES[array.dtype.str[1:]], array.reshape(-1)), array.shape, stride)


class Encoder:
    """Objects to pickle opcodes; storages become persistent ids and are collected."""

    def __init__(self, legacy: bool):
        self.legacy, self.storages = legacy, {}

    def encode(self, value) -> bytes:
        return b"\x80\x02" + self._value(value) + b"."

    def _value(self, value) -> bytes:
        if isinstance(value, bool):
            return b"\x88" if value else b"\x89"
        if value is None:
            return b"N"
        if isinstance(value, int):
            return b"J" + struct.pack("<i", value)
        if isinstance(value, str):
            return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
        if isinstance(value, tuple):
            return b"(" + b"".join(map(self._value, value)) + b"t"
        if isinstance(value, list):
            return b"](" + b"".join(map(self._value, value)) + b"e"
        if isinstance(value, dict):
            return b"}(" + b"".join(self._value(k) + self._value(v) for k, v in value.items()) + b"u"
        if isinstance(value, Global):
            return f"c{value.module}\n{value.name}\n".encode()
        if isinstance(value, Call):
            call = self._value(value.function) + self._value(value.arguments) + b"R"
            return call if value.state is None else call + self._value(value.state) + b"b"
        if isinstance(value, Storage):
            self.storages[value.key] = value
            identity = ("storage", Global("torch", value.kind + "Storage"), value.key, "cpu", value.data.size)
            return self._value((*identity, None) if self.legacy else identity) + b"Q"
        raise TypeError(type(value))


def write_zip(path, value, root="archive") -> None:
    encoder = Encoder(legacy=False)
    content = encoder.encode(value)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{root}/data.pkl", content)
        archive.writestr(f"{root}/byteorder", "little")
        for key, storage in encoder.storages.items():
            archive.writestr(f"{root}/data/{key}", storage.data.tobytes())
        archive.writestr(f"{root}/version", "3\n")


def write_legacy(path, value) -> None:
    encoder = Encoder(legacy=True)
    stream = io.BytesIO()
    for header in (MAGIC, 1001, {"little_endian": True, "protocol_version": 1001, "type_sizes": {}}):
        pickle.dump(header, stream, protocol=2)
    stream.write(encoder.encode(value))
    pickle.dump(list(encoder.storages), stream, protocol=2)
    for storage in encoder.storages.values():
        stream.write(struct.pack("<q", storage.data.size) + storage.data.tobytes())
    path.write_bytes(stream.getvalue())
