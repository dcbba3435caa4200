# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from passl.data.datasets import FakeImages
from passl.utils.errors import DataError


def pixels(dataset, index):
    return np.asarray(dataset.load(index)[0], np.float64)


def test_images_are_a_function_of_seed_split_and_index():
    dataset = FakeImages(20, 5, [12, 16], seed=3)
    assert pixels(dataset, 7).shape == (12, 16, 3) and dataset.labels().tolist() == [i % 5 for i in range(20)]
    assert np.array_equal(pixels(dataset, 7), pixels(FakeImages(20, 5, [12, 16], seed=3), 7))
    others = [pixels(dataset, 2), pixels(FakeImages(20, 5, [12, 16], seed=4), 7)]
    others.append(pixels(FakeImages(20, 5, [12, 16], seed=3, split="test"), 7))
    assert not any(np.array_equal(pixels(dataset, 7), other) for other in others)


def test_classes_can_be_told_apart_by_their_mean_image():
    train, test = FakeImages(60, 6, 16), FakeImages(30, 6, 16, split="test")
    centres = np.array([np.mean([pixels(train, i) for i in range(c, 60, 6)], 0) for c in range(6)])
    nearest = [np.abs(centres - pixels(test, i)).mean((1, 2, 3)).argmin() for i in range(30)]
    assert nearest == test.labels().tolist()


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(DataError, match="num_classes=0"):
        FakeImages(num_classes=0)
    with pytest.raises(DataError, match="split='val'"):
        FakeImages(split="val")
