# SPDX-License-Identifier: Apache-2.0
import gzip
import os

import numpy as np
import pytest

from passl.data import datasets
from passl.data.datasets import FashionMNIST
from passl.utils.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 28, 28), np.uint8)
LABELS = np.array([9, 0, 3, 3], np.uint8)


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return header + array.tobytes()


def write(folder, packed=True, images=None):
    os.makedirs(folder, exist_ok=True)
    for prefix in ("train", "t10k"):
        parts = {"images-idx3-ubyte": idx(IMAGES) if images is None else images, "labels-idx1-ubyte": idx(LABELS)}
        for name, data in parts.items():
            path = os.path.join(folder, f"{prefix}-{name}{'.gz' if packed else ''}")
            with open(path, "wb") as file:
                file.write(gzip.compress(data) if packed else data)
    return str(folder)


def test_the_mini_set_ships_with_its_licence():
    train, test = FashionMNIST(), FashionMNIST("test")
    assert (len(train), len(test)) == (5000, 1000)
    assert set(train.class_counts().values()) == {500} and set(test.class_counts().values()) == {100}
    image, label = train.load(0)
    assert image.mode == "RGB" and image.size == (28, 28) and train.classes[label] == "Ankle boot"
    licence = os.path.join(os.path.dirname(datasets.__file__), "fashion_mnist_LICENSE.txt")
    with open(licence) as file:
        assert "Zalando" in file.read()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("below", ["", "raw"])
def test_full_set_from_idx_files(tmp_path, packed, below):
    write(tmp_path / below, packed)
    dataset = FashionMNIST("test", str(tmp_path))
    assert len(dataset) == 4 and dataset.labels().tolist() == LABELS.tolist()
    assert np.array_equal(np.asarray(dataset.load(2)[0])[:, :, 1], IMAGES[2])


@pytest.mark.parametrize(
    ("images", "message"),
    [(idx(IMAGES)[:-5], "truncated"), (b"PNG", "no IDX file"), (idx(IMAGES[:3]), "3 images but 4 labels")],
)
def test_damaged_files_are_named(tmp_path, images, message):
    with pytest.raises(DataError, match=message):
        FashionMNIST("train", write(tmp_path, images=images))


def test_a_cut_off_gz_file_is_an_error(tmp_path):
    root = write(tmp_path)
    os.truncate(tmp_path / "train-images-idx3-ubyte.gz", 1000)
    with pytest.raises(DataError, match=r"cannot read .*train-images-idx3-ubyte\.gz"):
        FashionMNIST("train", root)


def test_missing_files_and_unknown_split(tmp_path):
    with pytest.raises(DataError, match="no train-images-idx3-ubyte in"):
        FashionMNIST("train", str(tmp_path))
    with pytest.raises(DataError, match="split='val', FashionMNIST has the splits 'train' and 'test'"):
        FashionMNIST("val")
