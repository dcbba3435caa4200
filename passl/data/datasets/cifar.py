# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10 and CIFAR-100 from their original archives.

Paper: Learning Multiple Layers of Features from Tiny Images, 2009, https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import codecs
import io
import os
import pickle
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from passl.utils.errors import DataError
from passl.utils.registry import DATASETS

from .base import ArrayDataset
from .paths import check_folder, found

# The only names that the original pickles use; any other could run code.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_HARMLESS = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("_codecs", "encode"): codecs.encode,
}


class _ArrayUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists, numbers, bytes and NumPy arrays, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"it wants to call {module}.{name}, which no CIFAR archive does")
        return _HARMLESS[module, name]


class _Cifar(ArrayDataset):
    """What both data sets share; subclasses say what their archives contain."""

    archive = ""  # without extension
    folder, binary_folder = "", ""
    files: ClassVar[Mapping[str, Sequence[str]]] = {}
    label_key = b""
    names_file, names_key, binary_names_file = "", b"", ""
    num_label_bytes = 1  # in a record of the binary version; the last one counts

    def __init__(self, root: str, split: str = "train", transforms: Sequence[Any] | None = None):
        if split not in self.files:
            raise DataError(f"split='{split}', {type(self).__name__} has the splits 'train' and 'test'")
        root = check_folder(root, self._expected())
        members, source, binary = self._open(root, split)
        if binary:
            images, labels, classes = self._read_binary(members, source)
        else:
            images, labels, classes = self._read_pickles(members, source)
        super().__init__(images, labels, classes, transforms, f"{source}, split={split}")

    def _expected(self) -> str:
        archives = f"{self.archive}-python.tar.gz or {self.archive}-binary.tar.gz"
        return f"{archives}, or one of them unpacked as {self.folder}/ or {self.binary_folder}/, in the folder"

    def _open(self, root: str, split: str) -> tuple[dict[str, bytes], str, bool]:
        """Contents of the files of ``split`` by name, where they come from, and whether it is the binary version."""
        for binary in (False, True):
            suffix = ".bin" if binary else ""
            names = [name + suffix for name in self.files[split]]
            names.append(self.binary_names_file if binary else self.names_file)
            for folder in (os.path.join(root, self.binary_folder if binary else self.folder), root):
                if os.path.isfile(os.path.join(folder, names[0])):
                    return _read_folder(folder, names), folder, binary
            archive = os.path.join(root, f"{self.archive}-{'binary' if binary else 'python'}.tar.gz")
            if os.path.isfile(archive):
                return _read_archive(archive, names), archive, binary
        raise DataError(f"no {type(self).__name__} in {root}\nexpected: {self._expected()}\n{found(root)}")

    def _read_pickles(self, members: dict[str, bytes], source: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
        contents = {name: _unpickle(data, f"{source}: {name}") for name, data in members.items()}
        names = contents.pop(self.names_file)
        try:
            pixels = np.concatenate([np.asarray(part[b"data"], np.uint8) for part in contents.values()])
            labels = np.concatenate([np.asarray(part[self.label_key], np.int64) for part in contents.values()])
            images = pixels.reshape(len(labels), 3, 32, 32)
            classes = [name.decode() for name in names[self.names_key]]
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{source} is no {type(self).__name__} archive: {error!r}") from error
        return np.ascontiguousarray(images.transpose(0, 2, 3, 1)), labels, classes

    def _read_binary(self, members: dict[str, bytes], source: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
        classes = members.pop(self.binary_names_file).decode().split()
        data = np.frombuffer(b"".join(members.values()), np.uint8)
        record = self.num_label_bytes + 3 * 32 * 32
        if data.size % record:
            raise DataError(f"{source} is truncated: {data.size:,} bytes are no multiple of {record}")
        rows = data.reshape(-1, record)
        images = rows[:, self.num_label_bytes :].reshape(-1, 3, 32, 32)
        labels = rows[:, self.num_label_bytes - 1].astype(np.int64)
        return np.ascontiguousarray(images.transpose(0, 2, 3, 1)), labels, classes


@DATASETS.register()
class CIFAR10(_Cifar):
    """50,000 training and 10,000 test images of 32 x 32 pixels in ten classes.

    Args:
        root: folder with the original archive (Python or binary version), packed or unpacked.
        split: "train" or "test".
        transforms: host transforms.
    """

    archive = "cifar-10"
    folder, binary_folder = "cifar-10-batches-py", "cifar-10-batches-bin"
    files: ClassVar = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
    label_key = b"labels"
    names_file, names_key, binary_names_file = "batches.meta", b"label_names", "batches.meta.txt"


@DATASETS.register()
class CIFAR100(_Cifar):
    """50,000 training and 10,000 test images of 32 x 32 pixels in a hundred classes.

    Args: those of :class:`CIFAR10`.
    """

    archive = "cifar-100"
    folder, binary_folder = "cifar-100-python", "cifar-100-binary"
    files: ClassVar = {"train": ["train"], "test": ["test"]}
    label_key = b"fine_labels"
    names_file, names_key, binary_names_file = "meta", b"fine_label_names", "fine_label_names.txt"
    num_label_bytes = 2


def _read_folder(folder: str, names: Sequence[str]) -> dict[str, bytes]:
    contents = {}
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            raise DataError(f"{folder} lacks the file {name}\n{found(folder)}")
        with open(path, "rb") as file:
            contents[name] = file.read()
    return contents


def _read_archive(path: str, names: Sequence[str]) -> dict[str, bytes]:
    """Contents of the files called ``names`` in a .tar.gz, read in memory, nothing unpacked to disk."""
    contents = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                base = os.path.basename(member.name)
                file = archive.extractfile(member) if base in names else None
                if file is not None:
                    contents[base] = file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged or no .tar.gz archive ({error}); fetch it again") from error
    missing = [name for name in names if name not in contents]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; it is incomplete or another archive")
    return {name: contents[name] for name in names}


def _unpickle(data: bytes, source: str) -> Any:
    try:
        return _ArrayUnpickler(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:
        raise DataError(f"{source} was refused: {error}") from error
