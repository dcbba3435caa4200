# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from passl.visualize.tsne import _affinities, _gradient, _squared_distances, tsne


def blobs(count=120, num_classes=4, dim=10, noise=0.2):
    rng = np.random.default_rng(0)
    labels = np.arange(count) % num_classes
    return 2 * rng.standard_normal((num_classes, dim))[labels] + noise * rng.standard_normal((count, dim)), labels


def test_neighbours_on_the_map_are_of_one_class():
    features, labels = blobs()
    distances = _squared_distances(tsne(features, steps=200))
    np.fill_diagonal(distances, np.inf)
    assert (labels[distances.argmin(1)] == labels).mean() > 0.98


def test_the_same_features_give_the_same_map_and_longer_ones_too():
    features, _ = blobs(60)
    first = tsne(features, steps=30)
    assert first.shape == (60, 2) and np.isfinite(first).all() and np.allclose(first.mean(0), 0, atol=1e-3)
    assert np.array_equal(first, tsne(features, steps=30))
    assert np.allclose(first, tsne(features * np.float64(4), steps=30), atol=1e-2)


def test_affinities_have_the_perplexity():
    distances = _squared_distances(blobs(50)[0])
    p = _affinities(distances, 10.0)
    assert np.allclose(p, p.T) and p.sum() == pytest.approx(1, abs=1e-5) and not np.diag(p).any()
    assert _affinities(distances, 40.0).max() < p.max()


def test_the_gradient_is_that_of_the_divergence():
    points = np.random.default_rng(1).standard_normal((12, 2))
    p = _affinities(_squared_distances(blobs(12)[0]), 3.0).astype("float64")

    def divergence(y):
        q = 1 / (1 + ((y[:, None] - y[None]) ** 2).sum(-1))
        np.fill_diagonal(q, 0)
        q /= q.sum()
        return (p * np.log(np.maximum(p, 1e-30) / np.maximum(q, 1e-30)))[p > 0].sum()

    gradient = _gradient(points, p, 1.0)
    for place in [(0, 0), (5, 1), (11, 0)]:
        step = np.zeros_like(points)
        step[place] = 1e-5
        numeric = (divergence(points + step) - divergence(points - step)) / 2e-5
        assert gradient[place] == pytest.approx(numeric, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_a_handful_of_points_and_collapsed_features_do_no_harm(count):
    assert np.isfinite(tsne(blobs(count)[0], steps=20)).all()
    assert np.isfinite(tsne(np.ones((count, 5)), steps=20)).all()
