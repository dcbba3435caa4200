# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from passl.data.datasets.base import ArrayDataset
from passl.data.transforms import RandomResizedCrop, Views
from passl.visualize.augmentation import _draws, augmentation_sheet
from tests.visualize.pictures import assert_drawn

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 20, 20, 3), dtype="uint8")
PIPELINES = {
    "image": [RandomResizedCrop(size=16)],
    "views": [Views(views=[[RandomResizedCrop(size=16)], [RandomResizedCrop(size=8)]])],
}


@pytest.mark.parametrize("kind", PIPELINES)
def test_a_sheet_is_drawn(tmp_path, kind):
    dataset = ArrayDataset(IMAGES, np.zeros(3), ["a"], PIPELINES[kind])
    assert_drawn(augmentation_sheet(dataset, tmp_path / "sheet.png", indices=[0, 2], draws=2))


def test_draws_differ_from_each_other_and_not_from_run_to_run():
    dataset = ArrayDataset(IMAGES, np.zeros(3), ["a"], PIPELINES["views"])
    first, again = (_draws(dataset, 1, draws=2, seed=0) for _ in range(2))
    assert [view.shape for view in first[0]] == [(16, 16, 3), (8, 8, 3)]
    assert all(np.array_equal(a, b) for x, y in zip(first, again) for a, b in zip(x, y))
    assert not np.array_equal(first[0][0], first[1][0])
