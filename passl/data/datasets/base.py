# SPDX-License-Identifier: Apache-2.0
"""What every data set of images can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from passl.utils.seed import SAMPLE, generator

from ..transforms import apply, check_pipeline


class ImageDataset(ABC):
    """Images with labels; a data set of its own defines ``__len__``, ``load`` and, where it can, ``labels``.

    Args:
        transforms: host transforms in order; a transform that gives views comes last.
        classes: names of the classes; a label is a place in this list.
    """

    def __init__(self, transforms: Sequence[Any] | None = None, classes: Sequence[str] = ()):
        self.transforms = check_pipeline(transforms or [])
        self.classes = list(classes)
        self.empty_folders: list[str] = []

    @abstractmethod
    def __len__(self) -> int:
        """Number of images."""

    @abstractmethod
    def load(self, index: int) -> tuple[Image.Image, int | None]:
        """The RGB image and its label (None where there is none)."""

    def labels(self) -> np.ndarray | None:
        """All labels, int64 [N], without decoding an image; None where the data has none."""
        return None

    def path(self, index: int) -> str | None:
        """The file an image comes from; None for images that are held in memory."""
        return None

    def sample(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """One training sample.

        Args:
            index: which image.
            rng: source of all randomness of the transforms.
        Returns:
            ``image`` uint8 [3, H, W] or ``views``, a list of such; ``label`` where there is one; ``index``.
        """
        image, label = self.load(index)
        result = apply(self.transforms, image, rng)
        sample: dict[str, Any] = {"index": index}
        if isinstance(result, list):
            sample["views"] = [to_array(view) for view in result]
        else:
            sample["image"] = to_array(result)
        if label is not None:
            sample["label"] = label
        return sample

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is outside a data set of {len(self)} images")
        index %= len(self)
        return self.sample(index, generator(0, SAMPLE, 0, index))

    def class_counts(self) -> dict[str, int]:
        """Number of images of each class, in the order of ``classes``; empty without labels."""
        labels = self.labels()
        counts = Counter(labels.tolist() if labels is not None else ())
        return {name: counts[label] for label, name in enumerate(self.classes)}

    def describe(self) -> str:
        """Where the data comes from, for ``repr``."""
        return ""

    def __repr__(self) -> str:
        facts = [self.describe(), f"{len(self):,} images", f"{len(self.classes)} classes" if self.classes else ""]
        return f"{type(self).__name__}({', '.join(filter(None, facts))})"


def to_array(image: Image.Image) -> np.ndarray:
    """A view of the image's bytes as uint8 [3, H, W]; whoever stores it lays it out."""
    return np.frombuffer(image.tobytes(), np.uint8).reshape(image.height, image.width, 3).transpose(2, 0, 1)


class ArrayDataset(ImageDataset):
    """Images and labels held in memory.

    Args:
        images: uint8 [N, H, W] or [N, H, W, 3].
        labels: integers [N].
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        classes: Sequence[str],
        transforms: Sequence[Any] | None = None,
        source: str = "",
    ):
        super().__init__(transforms, classes)
        self._images = images
        self._labels = np.asarray(labels, np.int64)
        self._source = source

    def __len__(self) -> int:
        return len(self._images)

    def load(self, index: int) -> tuple[Image.Image, int]:
        image = Image.fromarray(self._images[index])
        return (image if image.mode == "RGB" else image.convert("RGB")), int(self._labels[index])

    def labels(self) -> np.ndarray:
        return self._labels

    def describe(self) -> str:
        return self._source
