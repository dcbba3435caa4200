# SPDX-License-Identifier: Apache-2.0
"""Fashion-MNIST: a small part ships with passl, the full set comes from its IDX files.

Paper: Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms, 2017,
https://arxiv.org/abs/1708.07747
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from passl.utils.errors import DataError
from passl.utils.registry import DATASETS

from .base import ArrayDataset
from .paths import check_folder, found

_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_PREFIXES = {"train": "train", "test": "t10k"}
_MINI = os.path.join(os.path.dirname(__file__), "fashion_mnist_mini.npz")


@DATASETS.register()
class FashionMNIST(ArrayDataset):
    """Grey pictures of clothes, 28 x 28 pixels, in ten classes.

    Args:
        split: "train" or "test".
        root: folder with the IDX files (``train-images-idx3-ubyte`` and so on, .gz or not), as in Debian's
            package dataset-fashion-mnist.  None takes the mini set that ships with passl: the first 500 training
            and 100 test images of each class.
        transforms: host transforms.
    """

    def __init__(self, split: str = "train", root: str | None = None, transforms: Sequence[Any] | None = None):
        if split not in _PREFIXES:
            raise DataError(f"split='{split}', FashionMNIST has the splits 'train' and 'test'")
        if root is None:
            with np.load(_MINI) as arrays:
                images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
        else:
            images = _read_idx(root, f"{_PREFIXES[split]}-images-idx3-ubyte", num_axes=3)
            labels = _read_idx(root, f"{_PREFIXES[split]}-labels-idx1-ubyte", num_axes=1)
            if len(images) != len(labels):
                raise DataError(f"{root} has {len(images)} images but {len(labels)} labels for the split '{split}'")
        source = f"{'mini set' if root is None else root}, split={split}"
        super().__init__(images, labels, _CLASSES, transforms, source)


def _read_idx(root: str, name: str, num_axes: int) -> np.ndarray:
    """The array of an IDX file, packed or not: magic 0x08 (uint8) and the number of axes, the lengths, the data."""
    expected = f"{name}.gz or {name}"
    root = check_folder(root, expected)
    candidates = [os.path.join(root, *below, name + end) for below in ((), ("raw",)) for end in (".gz", "")]
    path = next(filter(os.path.isfile, candidates), None)
    if path is None:
        raise DataError(f"no {name} in {root}\nexpected: {expected}\n{found(root)}")
    try:
        with open(path, "rb") as file:
            data = file.read()
        if path.endswith(".gz"):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}; fetch it again") from error
    header = 4 + 4 * num_axes
    if len(data) < header or data[:4] != bytes([0, 0, 8, num_axes]):
        raise DataError(f"{path} is no IDX file of 8-bit values with {num_axes} axes")
    shape = np.frombuffer(data, ">i4", num_axes, offset=4)
    if len(data) - header != np.prod(shape, dtype=np.int64):
        raise DataError(f"{path} is truncated: {len(data) - header:,} values, its header promises {tuple(shape)}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
