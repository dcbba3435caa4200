# SPDX-License-Identifier: Apache-2.0
"""Look at the data before the first epoch, so that what is wrong with it is known in the first minute."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from passl.utils.errors import DataError

from .datasets.base import ImageDataset
from .datasets.image import UnreadableImage, explain, read_image

DECODE_ALL_BELOW = 2000  # files; decoding is the slow part
DECODE_SAMPLE = 500
QUICK_CHECK_LIMIT = 200_000  # files; a look at the ends of one is quick


@dataclass
class PrecheckReport:
    """What was found; ``str(report)`` is a few lines for people."""

    num_images: int
    class_counts: dict[str, int]
    unreadable: list[UnreadableImage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    num_quick: int = 0
    num_decoded: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        lines = [f"{self.num_images:,} images"]
        if self.class_counts:
            smallest = min(self.class_counts, key=self.class_counts.__getitem__)
            largest = max(self.class_counts, key=self.class_counts.__getitem__)
            lines[0] += (
                f" in {len(self.class_counts)} classes, {self.class_counts[smallest]:,} ('{smallest}') to "
                f"{self.class_counts[largest]:,} ('{largest}') each"
            )
        lines[0] += f"; {self.num_quick:,} files looked at, {self.num_decoded:,} images decoded, {self.seconds:.1f} s"
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])


def precheck(
    dataset: Any,
    num_classes: int | None = None,
    img_size: int | Sequence[int] | None = None,
    train_classes: Sequence[str] | None = None,
    decode: str = "auto",
    on_bad_file: str = "fail",
    name: str = "dataloader.train.dataset",
) -> PrecheckReport:
    """Check a data set: labels, class folders, files, image sizes.

    Args:
        dataset: an ``ImageDataset``; of any other one a single sample is read.
        num_classes: outputs of the head, where labels matter.
        img_size: pixels that the model works at, one side or (height, width).
        train_classes: class names of the training split, where ``dataset`` is another split.
        decode: "all" decodes every image; "auto" all below 2,000 files and otherwise 500 spread over the data,
            and looks at the first and last bytes of the others (of 200,000 at most); "none" opens no file.
        on_bad_file: under "skip" unreadable files are warnings.
        name: the config key of the data set, for messages.
    Returns:
        The report.
    Raises:
        DataError: everything that is wrong, in one message.
    """
    if decode not in ("auto", "all", "none"):
        raise DataError(f"decode='{decode}', expected 'auto', 'all' or 'none'")
    begin = time.perf_counter()
    if not isinstance(dataset, ImageDataset):
        dataset[0]
        return PrecheckReport(len(dataset), {}, num_decoded=1, seconds=time.perf_counter() - begin)
    report = PrecheckReport(len(dataset), dataset.class_counts())
    _check_classes(dataset, train_classes, report)
    _check_labels(dataset, num_classes, report)
    sizes = _check_files(dataset, decode, report)
    _check_sizes(dataset, sizes, img_size, report)
    if report.unreadable:
        told = [f"{len(report.unreadable):,} files cannot be read:"]
        told += [f"    {bad.path}: {bad.reason}" for bad in report.unreadable[:20]]
        told += [f"    and {len(report.unreadable) - 20:,} more"] if len(report.unreadable) > 20 else []
        if on_bad_file == "skip":
            report.warnings.append("\n".join(told))
        else:
            told.append("    remove or replace them, or set on_bad_file: skip beside num_workers")
            report.problems.append("\n".join(told))
    report.seconds = time.perf_counter() - begin
    if report.problems:
        count = len(report.problems)
        head = f"{name}: {count} problem{'s' if count != 1 else ''} in {dataset!r}"
        raise DataError("\n".join([head, *(f"  - {problem}" for problem in report.problems)]))
    return report


def _check_classes(dataset: Any, train_classes: Sequence[str] | None, report: PrecheckReport) -> None:
    """Class folders without images, classes without folders, and class maps that differ."""
    empty = dataset.empty_folders
    if empty:
        report.problems.append(f"{len(empty)} class folders hold no image: {_some(empty)}; fill or remove them")
    names = {os.path.basename(folder) for folder in empty}
    absent = [name for name, count in report.class_counts.items() if not count and name not in names]
    if absent:
        report.warnings.append(f"{len(absent)} classes have no image: {_some(absent)}")
    if not train_classes or list(train_classes) == dataset.classes:
        return
    strange = sorted(set(dataset.classes) - set(train_classes))
    lacking = sorted(set(train_classes) - set(dataset.classes))
    parts = [f"not in training: {_some(strange)}"] if strange else []
    parts += [f"only in training: {_some(lacking)}"] if lacking else []
    report.problems.append(
        f"its {len(dataset.classes)} classes are not the {len(train_classes)} classes of the training split "
        f"({'; '.join(parts) or 'the same names in another order'}), so labels would mean other things; "
        f"set the key 'classes' of this data set to the root of the training split"
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10:,} more" if len(names) > 10 else "")


def _check_labels(dataset: Any, num_classes: int | None, report: PrecheckReport) -> None:
    """Labels against the head's outputs."""
    if num_classes is None:
        return
    labels = dataset.labels()
    if labels is None:
        report.problems.append("it has no labels, which the head needs; use a data set with class folders or a list")
        return
    highest, lowest = int(labels.max()), int(labels.min())
    if highest >= num_classes or lowest < 0:
        outside = np.unique(labels[(labels >= num_classes) | (labels < 0)])
        report.problems.append(
            f"labels go from {lowest} to {highest}, the head has {num_classes} outputs, so {len(outside)} classes "
            f"have none (the first is {outside[0]}); set model.head.num_classes: "
            f"{max(highest + 1, len(dataset.classes))}"
        )
    elif len(dataset.classes) < num_classes:
        report.warnings.append(
            f"the head has {num_classes} outputs for {len(dataset.classes)} classes; "
            f"model.head.num_classes: {len(dataset.classes)} is enough"
        )


def _check_files(dataset: Any, decode: str, report: PrecheckReport) -> dict[str, tuple[int, int]]:
    """Find unreadable files; the (width, height) of the decoded images by their path."""
    count = len(dataset)
    if decode == "none":
        return {}
    in_memory = dataset.path(0) is None
    everything = decode == "all" or (count <= DECODE_ALL_BELOW and not in_memory)
    decoded = _spread(count, count if everything else 1 if in_memory else DECODE_SAMPLE)
    looked_at = [] if in_memory else _spread(count, QUICK_CHECK_LIMIT)
    full = set(decoded)

    def check(indices: list[int]) -> list[tuple[str, tuple[int, int] | UnreadableImage]]:
        results: list[tuple[str, tuple[int, int] | UnreadableImage]] = []
        for index in indices:
            path = dataset.path(index)
            try:
                if path is None:
                    results.append((f"image {index}", dataset.load(index)[0].size))
                elif index in full or not looks_whole(path):
                    results.append((path, read_image(path).size))
            except UnreadableImage as error:
                results.append((error.path, error))
        return results

    indices = sorted({*decoded, *looked_at})
    chunks = [indices[begin : begin + 64] for begin in range(0, len(indices), 64)]  # a task for each file costs more
    sizes: dict[str, tuple[int, int]] = {}
    with ThreadPoolExecutor(max_workers=min(16, 2 * (os.cpu_count() or 1))) as threads:
        for path, result in itertools.chain.from_iterable(threads.map(check, chunks)):
            if isinstance(result, UnreadableImage):
                report.unreadable.append(result)
            else:
                sizes[path] = result
    report.num_quick, report.num_decoded = len(looked_at), len(sizes)
    return sizes


def _check_sizes(
    dataset: Any, sizes: dict[str, tuple[int, int]], img_size: int | Sequence[int] | None, report: PrecheckReport
) -> None:
    if img_size is None:
        return
    wanted_height, wanted_width = (img_size, img_size) if isinstance(img_size, int) else img_size
    small = {path: size for path, size in sizes.items() if size[0] < wanted_width or size[1] < wanted_height}
    if small:
        path = min(small, key=lambda p: min(small[p]))
        width, height = small[path]
        wanted = img_size if isinstance(img_size, int) else f"{wanted_width}x{wanted_height}"
        report.warnings.append(
            f"{len(small):,} of {len(sizes):,} decoded images are smaller than the model's {wanted} pixels "
            f"(smallest {width}x{height}: {path}); they are enlarged"
        )


def _spread(count: int, limit: int) -> list[int]:
    """At most ``limit`` indices spread evenly over ``count``."""
    return np.unique(np.linspace(0, count - 1, min(count, limit)).astype(np.int64)).tolist() if count else []


def looks_whole(path: str) -> bool:
    """Whether the first and last bytes are those of a complete JPEG or PNG; False only asks for a closer look."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(8)
            file.seek(-min(12, os.fstat(file.fileno()).st_size), os.SEEK_END)
            tail = file.read()
    except OSError as error:
        raise UnreadableImage(path, explain(path, error)) from error
    if head.startswith(b"\xff\xd8\xff"):
        return tail.endswith(b"\xff\xd9")
    if head == b"\x89PNG\r\n\x1a\n":
        return tail[4:8] == b"IEND"
    return False
