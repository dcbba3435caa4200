# SPDX-License-Identifier: Apache-2.0
"""What a model sees as alike: a map of the features, and the nearest training images of some queries."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from passl.utils.seed import SAMPLE, generator

from .style import CLASSES, RIGHT, WRONG, figure
from .tsne import tsne

MAX_NAMED = 2 * len(CLASSES)  # classes with a colour and a name on the map


class Gallery(NamedTuple):
    """Images with their features.

    Args:
        features: [N, D].
        labels: [N].
        image: index -> a PIL image or array that matplotlib can show, e.g. ``lambda i: dataset.load(i)[0]``.
    """

    features: np.ndarray
    labels: np.ndarray
    image: Callable[[int], object]


def embedding_and_neighbours(
    path: str | os.PathLike[str],
    queries: Gallery,
    bank: Gallery,
    classes: Sequence[str],
    title: str = "",
    num_queries: int = 10,
    num_neighbours: int = 8,
    max_points: int = 1000,
    seed: int = 0,
) -> Path:
    """Draw the map of the queries beside a table of queries with their nearest images in the bank.

    Queries of the table are drawn at random, one from each class in turn: nobody has picked the good ones.

    Args:
        path: of the PNG.
        queries: validation images; the map shows ``max_points`` of them.
        bank: training images.
        classes: name of each label.
        title: above the picture.
        num_queries, num_neighbours: size of the table.
        max_points: the map takes time with their square.
        seed: of the draws.
    Returns:
        the path.
    """
    rng = generator(seed, SAMPLE)
    chosen = np.sort(rng.permutation(len(queries.labels))[:max_points])
    points = tsne(queries.features[chosen])
    rows = _one_of_each_class(queries.labels, num_queries, rng)
    with figure(path, 16, 9) as canvas:
        if title:
            canvas.suptitle(title, fontsize=15, fontweight="bold", x=0.01, ha="left")
        left, right = canvas.subfigures(1, 2, width_ratios=(1, 1.02), wspace=0.02)
        _draw_map(left.subplots(), points, queries.labels[chosen], classes)
        _draw_neighbours(right, queries, bank, rows, classes, min(num_neighbours, len(bank.labels)))
    return Path(path)


def _one_of_each_class(labels: np.ndarray, count: int, rng: np.random.Generator) -> list[int]:
    """``count`` indices: a random one of each class, then a second one of each, and so on."""
    by_class = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    rounds = ((indices[turn] for indices in by_class if turn < len(indices)) for turn in range(count))
    return [int(index) for indices in rounds for index in indices][:count]


def _draw_map(axis, points: np.ndarray, labels: np.ndarray, classes: Sequence[str]) -> None:
    """Points in the colour and shape of their class, the most frequent classes with their name; the others grey."""
    axis.set_title(f"Map of {len(points):,} validation images (t-SNE of their features)")
    axis.set(xticks=[], yticks=[], aspect="equal")
    axis.spines[:].set_visible(False)
    axis.grid(False)
    frequent = np.argsort(-np.bincount(labels), kind="stable")[: min(MAX_NAMED, len(np.unique(labels)))]
    rest = points[~np.isin(labels, frequent)]
    axis.scatter(*rest.T, s=12, color="#dddddd", linewidths=0)
    places = _name_places(points, labels, frequent)
    for number, (label, place) in enumerate(zip(frequent, places)):
        color, marker = CLASSES[number % len(CLASSES)], "o^"[number // len(CLASSES)]
        axis.scatter(*points[labels == label].T, s=24, color=color, marker=marker, linewidths=0.4, edgecolors="white")
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": color, "alpha": 0.88, "linewidth": 1.6}
        axis.text(*place, classes[label], ha="center", va="center", color="#222222", fontsize=9, bbox=box)


def _name_places(points: np.ndarray, labels: np.ndarray, frequent: np.ndarray) -> list[np.ndarray]:
    """For each class the point where it is most among its own, as long as its name covers no other name."""
    extent = np.maximum(np.ptp(points, axis=0), 1e-12)
    gaps = (points[:, None] - points[None]) / extent  # [N, N, 2]
    closeness = np.exp(-(gaps**2).sum(-1) / (2 * 0.04**2))
    places: list[np.ndarray] = []
    for label in frequent:
        own = labels == label
        purity = closeness[own][:, own].sum(1) - 0.5 * closeness[own][:, ~own].sum(1)
        best_first = points[own][np.argsort(-purity, kind="stable")]
        free = [p for p in best_first if all((np.abs(p - q) / extent > (0.16, 0.04)).any() for q in places)]
        places.append(free[0] if free else best_first[0])
    return places


def _draw_neighbours(
    canvas, queries: Gallery, bank: Gallery, rows: Sequence[int], classes: Sequence[str], count: int
) -> None:
    """A row for each query: the query, then its nearest bank images, framed by whether their class is the query's."""
    nearest = _nearest(queries.features[list(rows)], bank.features, count)
    right = (bank.labels[nearest] == queries.labels[list(rows)][:, None]).mean()
    canvas.suptitle(
        f"Nearest training images of {len(rows)} random validation images: {right:.0%} share the query's class",
        fontsize=11, fontweight="bold", x=0.02, ha="left",
    )  # fmt: skip
    axes = canvas.subplots(len(rows), count + 1, squeeze=False, gridspec_kw={"width_ratios": [1.15] + [1] * count})
    axes[0, 0].set_title("query", fontsize=9, loc="center")
    axes[0, 1].set_title("nearest", fontsize=9, loc="center", fontweight="normal")
    for row, (query, line) in enumerate(zip(rows, axes)):
        name = classes[queries.labels[query]]
        _show(line[0], queries.image(query), name, "#222222", 2.2)
        for axis, index in zip(line[1:], nearest[row]):
            same = bank.labels[index] == queries.labels[query]
            caption = "" if same else classes[bank.labels[index]]
            _show(axis, bank.image(int(index)), caption, RIGHT if same else WRONG, 2.2)


def _nearest(queries: np.ndarray, bank: np.ndarray, count: int) -> np.ndarray:
    """Indices [q, count] of the bank features with the largest cosine, nearest first."""
    queries, bank = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (queries, bank))
    return np.argsort(-(queries @ bank.T), axis=1, kind="stable")[:, :count]


def _show(axis, image, caption: str, color: str, width: float) -> None:
    """One framed picture with its caption below."""
    axis.imshow(image, cmap="gray", interpolation="nearest" if np.asarray(image).shape[0] < 64 else "antialiased")
    axis.grid(False)
    axis.set(xticks=[], yticks=[])
    axis.set_xlabel(caption, fontsize=7.5, color=color, labelpad=2)
    axis.spines[:].set_visible(True)
    axis.spines[:].set(color=color, linewidth=width)
