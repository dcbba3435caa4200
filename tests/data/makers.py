# SPDX-License-Identifier: Apache-2.0
"""Small images and folders for the tests of this package."""

import os

import numpy as np
from PIL import Image

from passl.data.datasets import ImageDataset


def noise_image(seed=0, width=40, height=30):
    """A random RGB image."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def save_images(folder, names, width=40, height=30):
    """JPEG files called ``names`` in a new ``folder``."""
    os.makedirs(folder, exist_ok=True)
    for seed, name in enumerate(names):
        noise_image(seed, width, height).save(os.path.join(folder, name), quality=90)


def class_tree(root, counts, **kwargs):
    """One folder of JPEGs for each class of ``counts``."""
    for name, count in counts.items():
        save_images(os.path.join(root, name), [f"{name}{i}.jpg" for i in range(count)], **kwargs)
    return str(root)


def truncate(path, share=0.5):
    """Cut the end of a file off."""
    size = os.path.getsize(path)
    os.truncate(path, int(size * share))


class Arange(ImageDataset):
    """Image i is uniformly of grey value i; label i % 3."""

    def __init__(self, count=20, size=8, transforms=None):
        super().__init__(transforms, ["a", "b", "c"])
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def load(self, index):
        return Image.new("RGB", (self.size, self.size), (index,) * 3), index % 3

    def labels(self):
        return np.arange(self.count) % 3
