# SPDX-License-Identifier: Apache-2.0
"""Weighted k-nearest-neighbour vote on frozen features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import paddle
import paddle.nn.functional as F

CHUNK_VALUES = 2**24  # similarities held at a time: 64 MiB


def knn_predict(
    bank: np.ndarray,
    bank_labels: np.ndarray,
    queries: np.ndarray,
    k: Sequence[int],
    num_classes: int,
    temperature: float = 0.07,
    exclude_self: bool = False,
) -> dict[int, np.ndarray]:
    """Class of each query by the vote of its k most similar bank features.

    Paper: Unsupervised Feature Learning via Non-Parametric Instance Discrimination, CVPR 2018,
    https://arxiv.org/abs/1805.01978, section 3.4, with the settings of DINO
    (https://arxiv.org/abs/2104.14294): score_c = sum over the k nearest with label c of exp(cos / T).

    Among equally similar neighbours the one earlier in the bank counts as nearer; among classes
    with equal scores the lower number wins.  The result is that of a stable sort of each row.

    Args:
        bank: features [N, D] with known labels, of any length.
        bank_labels: [N], in [0, num_classes).
        queries: features [Q, D].
        k: numbers of neighbours, each in [1, N] ([1, N - 1] with ``exclude_self``).
        num_classes: K.
        temperature: T > 0; small means that the nearest decide.
        exclude_self: the queries are the bank itself, and nobody is their own neighbour.
    Returns:
        for each k the int64 predictions [Q].
    Raises:
        ValueError: a k is out of range, or the shapes do not fit.
    """
    available = len(bank) - exclude_self
    if not k or min(k) < 1 or max(k) > available:
        raise ValueError(f"each k must lie between 1 and the {available} available neighbours, got k={list(k)}")
    if exclude_self and len(queries) != len(bank):
        raise ValueError(f"exclude_self needs the bank as queries, got {len(queries)} queries for {len(bank)} images")
    labels = np.asarray(bank_labels, np.int64)
    predictions = {size: np.empty(len(queries), np.int64) for size in k}
    for begin, similar, neighbours in nearest(bank, queries, max(k), exclude_self):
        votes = np.exp((similar - similar[:, :1]).astype(np.float64) / temperature)  # [q, k]; 1 for the nearest
        for size in k:
            scores = _add_up(votes[:, :size], labels[neighbours[:, :size]], num_classes)  # [q, K]
            predictions[size][begin : begin + len(scores)] = scores.argmax(1)
    return predictions


def nearest(bank: np.ndarray, queries: np.ndarray, k: int, exclude_self: bool = False):
    """The k bank features most similar to each query, some queries at a time, so that memory stays bounded.

    Yields:
        ``(begin, similarities [q, k], indices [q, k])`` for the queries from ``begin`` on, nearest
        first, the earlier in the bank first where similarities are equal.
    """
    bank_directions = F.normalize(paddle.to_tensor(bank, dtype="float32"), axis=1)  # [N, D]
    step = max(1, CHUNK_VALUES // len(bank))
    for begin in range(0, len(queries), step):
        some = F.normalize(paddle.to_tensor(queries[begin : begin + step], dtype="float32"), axis=1)  # [q, D]
        similar = paddle.matmul(some, bank_directions, transpose_y=True)  # [q, N]
        if exclude_self:
            rows = paddle.arange(len(some))
            similar[rows, rows + begin] = -float("inf")
        yield (begin, *_stable_top(similar, k))


def _stable_top(similar: paddle.Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest k of each row, ties in index order: what a stable sort gives, without sorting whole rows."""
    values, indices = paddle.topk(similar, k, axis=1)
    # Which of several equal values at the k-th place topk took is its own affair: sort those rows in full.
    tied = ((similar >= values[:, -1:]).sum(axis=1) > k).numpy()
    values, indices = values.numpy(), indices.numpy()
    for row in np.flatnonzero(tied):
        full = similar[int(row)].numpy()
        indices[row] = np.argsort(-full, kind="stable")[:k]
        values[row] = full[indices[row]]
    order = np.lexsort((indices, -values), axis=1)
    return np.take_along_axis(values, order, 1), np.take_along_axis(indices, order, 1)


def _add_up(votes: np.ndarray, classes: np.ndarray, num_classes: int) -> np.ndarray:
    """Sum of the votes [q, k] for each class, [q, K]."""
    cells = np.arange(len(votes))[:, None] * num_classes + classes
    sums = np.bincount(cells.ravel(), votes.ravel(), minlength=len(votes) * num_classes)
    return sums.reshape(len(votes), num_classes)
