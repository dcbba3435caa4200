# SPDX-License-Identifier: Apache-2.0
"""ImageNet-1k in the layouts it is found in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from passl.utils.errors import DataError
from passl.utils.registry import DATASETS

from .class_map import class_folders, read_classes
from .folder import FileDataset, _check_known, image_files, list_class_files
from .image import IMAGE_EXTENSIONS
from .image_list import read_list
from .paths import check_folder, found

_LAYOUT = """
  root/train/n01440764/*.JPEG   one folder for each class
  root/val/n01440764/*.JPEG     the same, or the original flat folder root/val/*.JPEG
                                with root/val_list.txt, lines of 'val/ILSVRC2012_val_00000001.JPEG 65'"""


@DATASETS.register()
class ImageNet(FileDataset):
    """ImageNet-1k, or any data in its layout.

    The classes of the training split rule both splits: the sorted names of the folders in ``root/train``.
    Where there is no training split, they are those of the validation folders, or ``root/classes.txt``,
    or the numbers that ``val_list.txt`` uses.

    Args:
        root: folder with ``train`` and ``val``, as class folders or flat with a list file
            ``train_list.txt`` or ``val_list.txt`` beside them.
        split: "train" or "val".
        transforms: host transforms.
        classes: class names in label order that override the rule above: a list, a .txt or .json
            file, or a folder of class folders.
        list_file: a list file elsewhere; its paths are relative to ``root`` or to the split's folder.
    """

    def __init__(
        self,
        root: str,
        split: str = "train",
        transforms: Sequence[Any] | None = None,
        classes: str | Sequence[str] | None = None,
        list_file: str | None = None,
    ):
        if split not in ("train", "val"):
            raise DataError(f"split='{split}', ImageNet has the splits 'train' and 'val'")
        root = check_folder(root, _LAYOUT)
        folder = check_folder(os.path.join(root, split), _LAYOUT)
        folders = class_folders(folder) if list_file is None else []
        names = _find_classes(root, folders, classes)
        if folders:
            _check_known(folder, folders, names)
            files, labels, empty = list_class_files(folder, folders, names, IMAGE_EXTENSIONS)
        else:
            list_file = list_file or os.path.join(root, f"{split}_list.txt")
            files, labels = _read_split_list(root, folder, list_file, names)
            empty = []
            names = names or [str(label) for label in range(labels.max() + 1)]
        if not files:
            raise DataError(f"no images in {folder}\nexpected:{_LAYOUT}\n{found(folder)}")
        super().__init__(folder, files, labels, names, transforms)
        self.empty_folders = empty


def _find_classes(root: str, folders: list[str], classes: str | Sequence[str] | None) -> list[str]:
    """The class map by the rule of ImageNet's docstring; empty where only the list file's numbers remain."""
    if classes is not None:
        return read_classes(classes)
    train = os.path.join(root, "train")
    of_train = class_folders(train) if os.path.isdir(train) else []
    if of_train or folders:
        return of_train or folders
    beside = os.path.join(root, "classes.txt")
    return read_classes(beside) if os.path.isfile(beside) else []


def _read_split_list(root: str, folder: str, list_file: str, classes: list[str]) -> tuple[list[str], np.ndarray]:
    """Files relative to ``folder``, and labels, of a flat split."""
    if not os.path.isfile(list_file):
        flat = next(image_files(folder, IMAGE_EXTENSIONS), None)
        reason = "is flat, so its labels must come from" if flat else "has neither class folders nor"
        raise DataError(f"{folder} {reason} the list file {list_file}\nexpected:{_LAYOUT}\n{found(root)}")
    paths, labels = read_list(list_file, " ", classes, labelled=True)
    if not os.path.exists(os.path.join(folder, paths[0])):
        paths = [os.path.relpath(os.path.join(root, path), folder) for path in paths]
    return paths, np.asarray(labels, np.int64)
