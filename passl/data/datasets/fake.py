# SPDX-License-Identifier: Apache-2.0
"""Images made from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from passl.utils.errors import DataError
from passl.utils.registry import DATASETS
from passl.utils.seed import generator

from .base import ImageDataset

_FAKE = 1001  # the stream of random numbers that images are made from
_SPLITS = ("train", "test")


@DATASETS.register()
class FakeImages(ImageDataset):
    """Images for trials without data: each class is a coarse pattern of colours, each image adds noise.

    A model can learn the classes, and does in a few steps; ``split`` "test" has other noise on the same patterns.

    Args:
        num_images: size of the data set.
        num_classes: number of classes; image i belongs to class i modulo this.
        img_size: side in pixels, or [height, width].
        seed: of patterns and noise.
        split: "train" or "test".
        transforms: host transforms.
    """

    def __init__(
        self,
        num_images: int = 1000,
        num_classes: int = 10,
        img_size: int | Sequence[int] = 224,
        seed: int = 0,
        split: str = "train",
        transforms: Sequence[Any] | None = None,
    ):
        if num_images < 1 or num_classes < 1:
            raise DataError(f"num_images={num_images}, num_classes={num_classes}, expected at least 1 of each")
        if split not in _SPLITS:
            raise DataError(f"split='{split}', FakeImages has the splits 'train' and 'test'")
        super().__init__(transforms, [str(label) for label in range(num_classes)])
        self.num_images = num_images
        self.img_size = (img_size, img_size) if isinstance(img_size, int) else (int(img_size[0]), int(img_size[1]))
        self.seed = seed
        self.split = split

    def __len__(self) -> int:
        return self.num_images

    def load(self, index: int) -> tuple[Image.Image, int]:
        label = index % len(self.classes)
        height, width = self.img_size
        coarse = generator(self.seed, _FAKE, 0, label).integers(0, 256, (4, 4, 3), np.uint8)
        pattern = Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR)
        rng = generator(self.seed, _FAKE, 1, _SPLITS.index(self.split), index)
        noise = Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))
        return Image.blend(pattern, noise, 0.3), label

    def labels(self) -> np.ndarray:
        return np.arange(self.num_images, dtype=np.int64) % len(self.classes)

    def describe(self) -> str:
        return f"img_size={self.img_size}, seed={self.seed}, split={self.split}"
