# SPDX-License-Identifier: Apache-2.0
"""A method and an evaluation loader that hold arrays, for the tests of the evaluation."""

from __future__ import annotations

import numpy as np
import paddle
from paddle import nn


class ArrayData:
    """Each "image" is a row of numbers."""

    def __init__(self, rows: np.ndarray, labels: np.ndarray | None, classes=None):
        self.rows, self.targets = rows.astype("float32"), labels
        self.classes = [f"class {i}" for i in range(int(labels.max()) + 1)] if classes is None else classes

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        sample = {"image": self.rows[index], "index": index}
        return sample if self.targets is None else {**sample, "label": int(self.targets[index])}


class ArrayLoader:
    """Batches of an ``ArrayData``, for one of several processes."""

    def __init__(self, dataset: ArrayData, batch_size=7, rank=0, world=1, batch_transforms=(), skipped=()):
        self.dataset, self.batch_size, self.batch_transforms = dataset, batch_size, batch_transforms
        self.indices = np.array([i for i in range(rank, len(dataset), world) if i not in skipped])
        self.bad_files = [_Bad(i) for i in skipped]

    def __iter__(self):
        for begin in range(0, len(self.indices), self.batch_size):
            index = self.indices[begin : begin + self.batch_size]
            batch = {"image": self.dataset.rows[index], "index": index.astype("int64")}
            if self.dataset.targets is not None:
                batch["label"] = self.dataset.targets[index].astype("int64")
            yield batch


class _Bad:
    def __init__(self, index):
        self.index = index


class Identity(nn.Layer):
    """Features and logits are the rows themselves; counts how many rows it has seen."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1D(1)
        self.rows_seen = 0

    def features(self, images: paddle.Tensor) -> paddle.Tensor:
        assert not self.training and not self.norm.training and not paddle.is_grad_enabled()
        self.rows_seen += len(images)
        return images

    predict = features


def clusters(count: int, num_classes: int, dim: int = 8, noise: float = 0.3, seed: int = 0):
    """Rows around one centre per class, and labels that go round the classes."""
    centers = np.random.default_rng(99).standard_normal((num_classes, dim))
    labels = np.arange(count) % num_classes
    rows = centers[labels] + noise * np.random.default_rng(seed).standard_normal((count, dim))
    return rows.astype("float32"), labels.astype("int64")
