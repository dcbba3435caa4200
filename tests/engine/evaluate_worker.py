# SPDX-License-Identifier: Apache-2.0
"""Evaluates a small network on real images, as one process of several; writes ``<folder>/<rank>.json``."""

import json
import sys
from pathlib import Path

import numpy as np
import paddle
from paddle import nn

from passl.data.batch_transforms import Normalize
from passl.data.datasets.fashion_mnist import FashionMNIST
from passl.data.loader import eval_loader
from passl.engine.evaluate import KNN, LinearProbe, Retrieval, TopK, evaluate
from passl.utils import distributed


class Few(FashionMNIST):
    """A number of images that no batch size and no number of processes divides."""

    def __init__(self, split, count):
        super().__init__(split)
        chosen = np.random.default_rng(0).permutation(len(self._images))[:count]
        self._images, self._labels = self._images[chosen], self._labels[chosen]


class Net(nn.Layer):
    """Random convolution with batch statistics that only evaluation mode ignores."""

    def __init__(self):
        super().__init__()
        paddle.seed(1)
        self.body = nn.Sequential(nn.Conv2D(3, 8, 5, stride=4), nn.BatchNorm2D(8), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(288, 10)

    def features(self, images):
        return self.body(images)

    def predict(self, images):
        return self.head(self.body(images))


def figures(batch_size):
    """All evaluators' figures on 101 images with a bank of 205."""
    normalize = [Normalize(mean=[0.3] * 3, std=[0.3] * 3)]
    loaders = [
        eval_loader(Few(*of), batch_size, 0, batch_transforms=normalize) for of in (("test", 101), ("train", 205))
    ]
    evaluators = [TopK([1, 5]), KNN([1, 20]), LinearProbe(strengths=[0.1]), Retrieval()]
    return evaluate(Net(), evaluators, *loaders)


if __name__ == "__main__":
    distributed.start()
    found = {size: figures(size) for size in (7, 64)}
    (Path(sys.argv[1]) / f"{distributed.rank()}.json").write_text(json.dumps(found))
