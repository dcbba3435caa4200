# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from passl.visualize import embedding as module
from passl.visualize.embedding import Gallery, embedding_and_neighbours
from tests.visualize.pictures import assert_drawn


def gallery(count, num_classes, seed):
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % num_classes
    features = np.eye(num_classes)[labels] + 0.2 * rng.standard_normal((count, num_classes))
    pixels = rng.integers(0, 256, (count, 12, 12, 3), dtype="uint8")
    return Gallery(features.astype("float32"), labels, lambda i: pixels[i])


@pytest.mark.parametrize("num_classes", [2, 12, 25])
def test_map_and_neighbours_are_drawn(tmp_path, monkeypatch, num_classes):
    monkeypatch.setattr(module, "tsne", lambda features: features[:, :2])
    names = [f"class {i}" for i in range(num_classes)]
    queries, bank = gallery(50, num_classes, 0), gallery(60, num_classes, 1)
    assert_drawn(
        embedding_and_neighbours(tmp_path / "map.png", queries, bank, names, "A title", num_queries=3, num_neighbours=2)
    )


def test_no_more_points_are_mapped_than_asked_for(tmp_path, monkeypatch):
    mapped = []
    monkeypatch.setattr(module, "tsne", lambda features: mapped.append(len(features)) or features[:, :2])
    sets = gallery(50, 3, 0), gallery(4, 3, 1)
    embedding_and_neighbours(tmp_path / "a.png", *sets, "abc", num_queries=1, num_neighbours=9, max_points=20)
    assert mapped == [20]


def test_queries_take_turns_over_the_classes():
    labels = np.array([0] * 50 + [1] * 2 + [4])
    rows = module._one_of_each_class(labels, 6, np.random.default_rng(0))
    assert labels[rows].tolist() == [0, 1, 4, 0, 1, 0] and len(set(rows)) == 6


def test_neighbours_are_by_cosine_nearest_first():
    bank = np.array([[0, 1], [5, 5], [0.1, 0], [1, 0.2]])
    assert module._nearest(np.array([[3.0, 0]]), bank, 3).tolist() == [[2, 3, 1]]


def test_names_on_the_map_do_not_cover_each_other():
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((300, 2)), np.arange(300) % 6
    places = module._name_places(points, labels, np.arange(6))
    extent = np.ptp(points, axis=0)
    apart = [(np.abs(a - b) / extent > (0.16, 0.04)).any() for i, a in enumerate(places) for b in places[:i]]
    assert all(apart)
