# SPDX-License-Identifier: Apache-2.0
"""Safetensors files as NumPy arrays, through the package of that name; bfloat16, which NumPy lacks, is read here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from passl.utils.errors import CheckpointError

from .arrays import bfloat16_to_float32, map_file


def read_safetensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Tensors and metadata of a file; bfloat16 becomes float32, with the same values.

    Raises:
        CheckpointError: the file is truncated, its header is no safetensors header or contradicts the data.
    """
    with _open(path) as file:
        half = [name for name in file.keys() if file.get_slice(name).get_dtype() == "BF16"]  # noqa: SIM118
        arrays = {name: file.get_tensor(name) for name in file.keys() if name not in half}  # noqa: SIM118
        metadata = file.metadata() or {}
        return {**arrays, **_read_bfloat16(path, half)}, metadata


def read_metadata(path: str | Path) -> dict[str, str]:
    """Only the metadata of a safetensors file."""
    with _open(path) as file:
        return file.metadata() or {}


@contextmanager
def _open(path: str | Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, TypeError, ValueError) as error:  # the latter two: a type that NumPy cannot hold
        raise CheckpointError(
            f"{path} is truncated or no safetensors file ({error}): copy or download it again"
        ) from error


def _read_bfloat16(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Tensors that the package refuses; it has checked the header, whose length the first eight bytes tell."""
    names = list(names)
    if not names:
        return {}
    data = map_file(path)
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    arrays = {}
    for name in names:
        first, last = header[name]["data_offsets"]
        bits = np.frombuffer(data[begin + first : begin + last], np.uint16)
        arrays[name] = bfloat16_to_float32(bits).reshape(header[name]["shape"])
    return arrays


def write_safetensors(stream: BinaryIO, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write NumPy arrays or Paddle tensors to ``stream``; bfloat16 is written as float32.

    The same content gives the same bytes: the package writes metadata in a random order, here it is sorted.
    """
    data = save({name: _to_numpy(name, arrays[name]) for name in sorted(arrays)})
    if metadata:
        begin = 8 + int.from_bytes(data[:8], "little")
        header = {"__metadata__": {str(k): str(metadata[k]) for k in sorted(metadata)}, **json.loads(data[8:begin])}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)  # the tensors stay aligned
        data = len(text).to_bytes(8, "little") + text + data[begin:]
    stream.write(data)


def _to_numpy(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, (np.ndarray, np.generic)):
        value = (value.astype("float32") if str(value.dtype).endswith("bfloat16") else value).numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise CheckpointError(f"'{name}' has dtype {array.dtype}, which safetensors cannot hold")
    return np.ascontiguousarray(array).reshape(array.shape)
