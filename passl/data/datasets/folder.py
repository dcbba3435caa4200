# SPDX-License-Identifier: Apache-2.0
"""Images in folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

from passl.utils.errors import DataError, did_you_mean
from passl.utils.registry import DATASETS

from .base import ImageDataset
from .class_map import class_folders, read_classes
from .image import IMAGE_EXTENSIONS, read_image
from .paths import PathList, check_folder, found

_LAYOUT = "one folder for each class with its images: root/cat/1.jpg, root/cat/2.jpg, root/dog/1.jpg, ..."


class FileDataset(ImageDataset):
    """Images in files.

    Args:
        root: folder that ``files`` are relative to.
        files: path of each image.
        labels: label of each image, or None.
    """

    def __init__(
        self,
        root: str,
        files: Sequence[str],
        labels: Sequence[int] | np.ndarray | None,
        classes: Sequence[str] = (),
        transforms: Sequence[Any] | None = None,
    ):
        super().__init__(transforms, classes)
        self.root = root
        self._files = PathList(files)
        self._labels = None if labels is None else np.asarray(labels, np.int64)

    def __len__(self) -> int:
        return len(self._files)

    def load(self, index: int) -> tuple[Image.Image, int | None]:
        label = None if self._labels is None else int(self._labels[index])
        return read_image(self.path(index)), label

    def labels(self) -> np.ndarray | None:
        return self._labels

    def path(self, index: int) -> str:
        return os.path.join(self.root, self._files[index])

    def describe(self) -> str:
        return self.root


@DATASETS.register()
class ImageFolder(FileDataset):
    """One folder for each class, the classes in the sorted order of their names.

    Args:
        root: folder that holds the class folders.
        transforms: host transforms.
        classes: class names in label order, where another split rules: a list, a .txt or .json file, or
            the folder of the training split.  Without it the folders of ``root`` are the classes.
        extensions: which files are images; the letter case does not matter.
    Raises:
        DataError: no such folder, no images, or a folder that is none of ``classes``.
    """

    def __init__(
        self,
        root: str,
        transforms: Sequence[Any] | None = None,
        classes: str | Sequence[str] | None = None,
        extensions: Sequence[str] = IMAGE_EXTENSIONS,
    ):
        root = check_folder(root, _LAYOUT)
        folders = class_folders(root)
        names = folders if classes is None else read_classes(classes)
        _check_known(root, folders, names)
        files, labels, empty = list_class_files(root, folders, names, tuple(extensions))
        if not files:
            loose = next(image_files(root, tuple(extensions)), None)
            hint = "\nfor images without labels use the data set ImageFiles" if loose else ""
            raise DataError(f"no images in class folders under {root}\nexpected: {_LAYOUT}\n{found(root)}{hint}")
        super().__init__(root, files, labels, names, transforms)
        self.empty_folders = empty


@DATASETS.register()
class ImageFiles(FileDataset):
    """All images anywhere below a folder, without labels: enough for self-supervised pre-training.

    Args:
        root: folder that is searched.
        transforms: host transforms.
        extensions: which files are images; the letter case does not matter.
    """

    def __init__(
        self,
        root: str,
        transforms: Sequence[Any] | None = None,
        extensions: Sequence[str] = IMAGE_EXTENSIONS,
    ):
        expected = f"image files ({' '.join(extensions)}) anywhere below the folder"
        root = check_folder(root, expected)
        files = list(image_files(root, tuple(extensions)))
        if not files:
            raise DataError(f"no images below {root}\nexpected: {expected}\n{found(root)}")
        super().__init__(root, files, None, (), transforms)


def image_files(root: str, extensions: tuple[str, ...], below: str = "") -> Iterator[str]:
    """Paths of all images below ``root``/``below``, relative to ``root``, in sorted order.

    Links are followed, except where one leads back to a folder that holds it: its images are found already.
    """
    top = os.path.join(root, below)
    ways = {top: [os.path.realpath(top)]}  # for each folder, the real folders on the way to it
    for folder, subfolders, names in os.walk(top, followlinks=True):
        way = ways.pop(folder)
        real = {name: _real_subfolder(way[-1], name) for name in sorted(subfolders)}
        subfolders[:] = [name for name, path in real.items() if not any(_holds(path, passed) for passed in way)]
        ways.update((os.path.join(folder, name), [*way, real[name]]) for name in subfolders)
        prefix = os.path.relpath(folder, root)
        for name in sorted(names):
            if name.lower().endswith(extensions) and not name.startswith("."):
                yield name if prefix == "." else os.path.join(prefix, name)


def _real_subfolder(folder: str, name: str) -> str:
    path = os.path.join(folder, name)
    return os.path.realpath(path) if os.path.islink(path) else path


def _holds(folder: str, other: str) -> bool:
    return os.path.join(other, "").startswith(os.path.join(folder, ""))


def list_class_files(
    root: str, folders: Sequence[str], classes: Sequence[str], extensions: tuple[str, ...]
) -> tuple[list[str], np.ndarray, list[str]]:
    """Files and labels of the class ``folders`` of ``root``, and those folders that hold no image."""
    label_of = {name: label for label, name in enumerate(classes)}
    files: list[str] = []
    labels: list[int] = []
    empty: list[str] = []
    for folder in folders:
        found_here = list(image_files(root, extensions, folder))
        files += found_here
        labels += [label_of[folder]] * len(found_here)
        if not found_here:
            empty.append(os.path.join(root, folder))
    return files, np.asarray(labels, np.int64), empty


def _check_known(root: str, folders: Sequence[str], classes: Sequence[str]) -> None:
    """Raise DataError where a folder is not one of the classes that the training split has."""
    known = set(classes)
    strange = [folder for folder in folders if folder not in known]
    if strange:
        named = ", ".join(f"'{folder}'{did_you_mean(folder, classes)}" for folder in strange[:5])
        more = f" and {len(strange) - 5} more" if len(strange) > 5 else ""
        raise DataError(
            f"{root} has {len(strange)} class folders that the training split does not have: {named}{more}\n"
            f"expected: a subset of its {len(classes)} classes ({', '.join(list(classes)[:5])}, ...)"
        )
