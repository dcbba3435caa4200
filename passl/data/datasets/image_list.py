# SPDX-License-Identifier: Apache-2.0
"""Images named by a text file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from passl.utils.errors import DataError, did_you_mean
from passl.utils.registry import DATASETS

from .class_map import read_classes
from .folder import FileDataset
from .paths import check_folder


@DATASETS.register()
class ImageList(FileDataset):
    """A text file with one ``path label`` on each line, or one ``path`` where there are no labels.

    Args:
        list_file: the text file; empty lines are passed over.
        root: folder that the paths are relative to; by default the folder of ``list_file``.
        delimiter: what stands between path and label; the last one on a line counts, so paths may contain it.
        transforms: host transforms.
        classes: class names in label order (a list, a .txt or .json file, a folder of class folders);
            a label is then a number or one of these names.  By default classes are called "0", "1", ...
        labelled: False reads each line as a path.
    Raises:
        DataError: names the lines that cannot be understood.
    """

    def __init__(
        self,
        list_file: str,
        root: str | None = None,
        delimiter: str = " ",
        transforms: Sequence[Any] | None = None,
        classes: str | Sequence[str] | None = None,
        labelled: bool = True,
    ):
        list_file = os.path.expanduser(list_file)
        names = [] if classes is None else read_classes(classes)
        paths, labels = read_list(list_file, delimiter, names, labelled)
        if labelled and not names:
            names = [str(label) for label in range(max(labels) + 1)]
        folder = os.path.dirname(list_file) if root is None else check_folder(root, f"the images named in {list_file}")
        super().__init__(folder, paths, labels if labelled else None, names, transforms)
        self._list_file = list_file

    def describe(self) -> str:
        return self._list_file


def read_list(path: str, delimiter: str, classes: Sequence[str], labelled: bool) -> tuple[list[str], list[int]]:
    """Paths and labels of a list file; all faulty lines are reported together."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise DataError(f"cannot read the list file {path} ({error}); expected lines of 'path label'") from error
    label_of = {name: label for label, name in enumerate(classes)}
    paths: list[str] = []
    labels: list[int] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line:
            continue
        name, _, label = line.rpartition(delimiter) if labelled else (line, "", "")
        fault = _fault(name.strip(), label.strip(), label_of) if labelled else ""
        if fault:
            problems.append(f"  {path}:{number}: {fault} in {line!r}")
            continue
        paths.append(name.strip())
        labels.append((label_of[label.strip()] if label.strip() in label_of else int(label)) if labelled else -1)
    if problems:
        more = [f"  and {len(problems) - 10} more"] if len(problems) > 10 else []
        head = f"{len(problems)} lines of the list file cannot be understood, expected 'path{delimiter}label'"
        raise DataError("\n".join([head, *problems[:10], *more]))
    if not paths:
        raise DataError(f"the list file {path} names no image; expected lines of 'path{delimiter}label'")
    return paths, labels


def _fault(name: str, label: str, label_of: dict[str, int]) -> str:
    """What is wrong with one line, or nothing."""
    if not name:
        return "no label (set labelled: false for images without)"
    if label in label_of:
        return ""
    if not label.isdigit():
        hint = did_you_mean(label, label_of)
        return f"label '{label}' is neither a number from 0 nor one of the {len(label_of)} classes{hint}"
    if label_of and int(label) >= len(label_of):
        return f"label {label} is outside the {len(label_of)} classes"
    return ""
