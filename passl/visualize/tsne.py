# SPDX-License-Identifier: Apache-2.0
"""Exact t-SNE in NumPy: a map of up to some thousand features, where neighbours stay neighbours."""

from __future__ import annotations

import numpy as np


def tsne(
    features: np.ndarray,
    perplexity: float = 30.0,
    steps: int = 500,
    exaggerated_steps: int = 125,
    exaggeration: float = 12.0,
) -> np.ndarray:
    """Positions in the plane whose neighbourhoods are as those of the features' directions.

    Paper: Visualizing Data using t-SNE, JMLR 2008, https://jmlr.org/papers/v9/vandermaaten08a.html,
    eq. 1-5 and algorithm 1, with early exaggeration; the learning rate N / exaggeration / 4,
    at least 50, follows Belkina et al. 2019, https://doi.org/10.1038/s41467-019-13055-y.  It starts
    from the first two principal components, so the same features give the same map.

    Args:
        features: [N, D]; time and memory grow with N squared (1,000: seconds).
        perplexity: how many neighbours count, below N / 3 or else taken as that.
        steps: of gradient descent.
        exaggerated_steps: at first, during which neighbours attract ``exaggeration`` times as strongly.
        exaggeration: see above.
    Returns:
        float32 [N, 2], centred.
    """
    directions = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    directions = (directions - directions.mean(0)).astype(np.float32)
    affinity = _affinities(_squared_distances(directions), min(perplexity, max(1.0, (len(features) - 1) / 3)))
    points = _principal_plane(directions)
    rate = max(len(points) / exaggeration / 4, 50.0)
    velocity, gain = np.zeros_like(points), np.ones_like(points)
    work = np.empty_like(affinity), np.empty_like(affinity)
    for step in range(steps):
        early = step < exaggerated_steps
        gradient = _gradient(points, affinity, exaggeration if early else 1.0, work)
        gain = np.where(np.sign(gradient) != np.sign(velocity), gain + 0.2, gain * 0.8).clip(0.01)
        velocity = (0.5 if early else 0.8) * velocity - rate * gain * gradient
        points = points + velocity
    return points - points.mean(0)


def _squared_distances(points: np.ndarray) -> np.ndarray:
    """[N, D] -> [N, N]."""
    squares = (points**2).sum(1)
    return np.maximum(squares[:, None] + squares[None] - 2 * points @ points.T, 0)


def _affinities(distances: np.ndarray, perplexity: float) -> np.ndarray:
    """Symmetric p_ij (sum 1) of Gaussians, each so wide that its point has the perplexity; all bisected at once."""
    others = ~np.eye(len(distances), dtype=bool)
    nearest = np.where(others, distances, np.inf).min(1, keepdims=True)
    distances = np.where(others, distances - nearest, 0)
    scale = 1 / np.maximum(distances.mean(1, keepdims=True), 1e-12)  # distances of very different size alike
    low, high = scale * 1e-4, scale * 1e6
    for _ in range(40):
        precision = np.sqrt(low * high)
        p = np.exp(-distances * precision) * others
        p /= p.sum(1, keepdims=True)
        entropy = -(p * np.log(np.maximum(p, 1e-30))).sum(1, keepdims=True)
        too_wide = entropy > np.log(perplexity)
        low, high = np.where(too_wide, precision, low), np.where(too_wide, high, precision)
    return ((p + p.T) / (2 * len(p))).astype(np.float32)


def _principal_plane(centred: np.ndarray) -> np.ndarray:
    """The first two principal components, small as t-SNE wants its start, with signs that no solver decides."""
    _, vectors = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    plane = centred @ vectors[:, -2:][:, ::-1]
    plane *= np.sign(plane[np.abs(plane).argmax(0), np.arange(plane.shape[1])])
    return (1e-4 * plane / max(plane[:, 0].std(), 1e-12)).astype(np.float32)


def _gradient(points: np.ndarray, affinity: np.ndarray, exaggeration: float, work: tuple | None = None) -> np.ndarray:
    """Eq. 5: 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2); ``work``: two arrays to reuse."""
    closeness, force = work or (np.empty_like(affinity), np.empty_like(affinity))  # [N, N] each
    squares = (points**2).sum(1)
    np.matmul(-2 * points, points.T, out=closeness)
    closeness += squares[:, None] + 1
    closeness += squares
    np.reciprocal(closeness, out=closeness)
    np.fill_diagonal(closeness, 0)
    np.multiply(closeness, -1 / (exaggeration * closeness.sum()), out=force)
    force += affinity
    force *= closeness
    return 4 * exaggeration * (force.sum(1, keepdims=True) * points - force @ points)
