# SPDX-License-Identifier: Apache-2.0
"""Linear classifier on frozen features, fitted to its optimum in seconds.

Multinomial logistic regression with an L2 penalty on all features at once: no learning rate, no
augmentation, no randomness beyond one seeded split.  It suits what fits into memory, up to some
hundred thousand images of a few classes.  The ImageNet protocol (SGD on augmented crops for 90
or 100 epochs) is a training of ``Classifier`` with a frozen architecture, hence a config, not this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import paddle
import paddle.nn.functional as F

from passl.utils.seed import SHUFFLE, generator

STRENGTHS = tuple(10.0 ** (-e / 2) for e in range(1, 11))  # l2, from strong to weak
PATIENCE = 2  # strengths in a row that may do worse than the best so far before the search ends


class LinearModel(NamedTuple):
    """logits = (features - mean) / scale @ weight + bias."""

    mean: np.ndarray  # [D]
    scale: np.ndarray  # [D]
    weight: np.ndarray  # [D, K]
    bias: np.ndarray  # [K]
    l2: float

    def logits(self, features: np.ndarray) -> np.ndarray:
        """[N, D] -> [N, K]."""
        return (features - self.mean) / self.scale @ self.weight + self.bias


def fit_linear_probe(
    features: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    strengths: Sequence[float] = STRENGTHS,
    held_out: float = 0.2,
    seed: int = 0,
) -> LinearModel:
    """Minimise mean cross entropy + l2 / 2 |W|^2 over a linear classifier of standardised features.

    Each strength is fitted to a part of the images and judged on the rest; the best by accuracy
    (then by cross entropy) is fitted again to all of them.  Test images play no part.

    Args:
        features: [N, D].
        labels: [N], in [0, num_classes).
        num_classes: K.
        strengths: the values of l2 to try, in this order, until accuracy falls; with one value nothing is held out.
        held_out: share of the images that judges the strengths, in (0, 1).
        seed: of the split.
    """
    if len(strengths) == 1:
        return next(_fits(features, labels, num_classes, strengths, tolerance=1e-4))
    order = generator(seed, SHUFFLE).permutation(len(features))
    judges, fitted = np.split(order, [max(1, round(held_out * len(order)))])
    if not len(fitted):
        raise ValueError(f"{len(features)} images are too few to hold {held_out:.0%} out and fit to the rest")
    models: list[LinearModel] = []
    errors: list[tuple[float, float]] = []
    for model in _fits(features[fitted], labels[fitted], num_classes, strengths, tolerance=3e-4):
        models.append(model)
        errors.append(_errors(model.logits(features[judges]), labels[judges]))
        if len(errors) - 1 - errors.index(min(errors)) == PATIENCE:
            break
    best = models[errors.index(min(errors))]
    return next(_fits(features, labels, num_classes, [best.l2], tolerance=1e-4, start=best))


def _errors(logits: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Share of wrong answers and mean cross entropy."""
    loss = F.cross_entropy(paddle.to_tensor(logits), paddle.to_tensor(labels))
    return float((logits.argmax(1) != labels).mean()), float(loss)


def _fits(
    features: np.ndarray,
    labels: np.ndarray,
    num_classes: int,
    strengths: Sequence[float],
    tolerance: float,
    start: LinearModel | None = None,
) -> Iterator[LinearModel]:
    """The optimum for each strength in turn, each search starting from the one before.

    In the basis of principal components the Hessian is close to diagonal, about
    ``variance / K + l2`` for each component; divided by its root, the problem takes L-BFGS tens of
    iterations instead of thousands.  A rotation leaves |W|^2, and so the optimum, as it is.
    """
    mean = features.mean(0, dtype=np.float64).astype(np.float32)
    scale = np.maximum(features.std(0, dtype=np.float64), 1e-6).astype(np.float32)
    standard = paddle.to_tensor((features - mean) / scale)  # [N, D]
    covariance = paddle.matmul(standard, standard, transpose_x=True).numpy() / len(features)
    variance, basis = np.linalg.eigh(covariance.astype(np.float64))
    kept = variance > 1e-6 * max(variance[-1], 1e-6)
    variance, basis = variance[kept], basis[:, kept].astype(np.float32)  # [R], [D, R]
    components = paddle.matmul(standard, paddle.to_tensor(basis))  # [N, R]

    weight = np.zeros((len(variance), num_classes), np.float32) if start is None else basis.T @ start.weight  # [R, K]
    bias = np.zeros(num_classes, np.float32) if start is None else start.bias
    bias_scale = num_classes**0.5
    ones = paddle.full([len(features), 1], bias_scale)
    targets = F.one_hot(paddle.to_tensor(labels), num_classes)  # [N, K]
    for l2 in strengths:
        root = np.sqrt(variance / num_classes + l2).astype(np.float32)[:, None]  # [R, 1]
        inputs = paddle.concat([components / paddle.to_tensor(root.T), ones], axis=1)  # [N, R + 1]
        penalty = np.concatenate([l2 / root**2, np.zeros((1, 1), np.float32)])  # [R + 1, 1]; the bias is free
        point = paddle.to_tensor(np.concatenate([weight * root, bias[None] / bias_scale]))  # [R + 1, K]
        point = _minimise(_objective(inputs, targets, paddle.to_tensor(penalty)), point, tolerance).numpy()
        weight, bias = point[:-1] / root, point[-1] * bias_scale
        yield LinearModel(mean, scale, basis @ weight, bias, float(l2))


def _objective(inputs: paddle.Tensor, targets: paddle.Tensor, penalty: paddle.Tensor) -> Callable:
    """weights -> (penalised mean cross entropy, its gradient)."""

    def value_and_gradient(weights):
        log_p = F.log_softmax(paddle.matmul(inputs, weights), axis=1)  # [N, K]
        # Summed in float64: near the optimum the search compares values that differ in the seventh digit.
        loss = -(log_p * targets).sum(axis=1).astype("float64").mean()
        loss += 0.5 * (penalty * weights**2).astype("float64").sum()
        errors = (log_p.exp() - targets) / len(inputs)
        gradient = paddle.matmul(errors, inputs, transpose_x=True).T + penalty * weights
        return float(loss), gradient

    return value_and_gradient


def _minimise(
    value_and_gradient: Callable, start: paddle.Tensor, tolerance: float, steps: int = 300, memory: int = 10
) -> paddle.Tensor:
    """L-BFGS with backtracking, for a smooth convex function, until no partial derivative exceeds ``tolerance``.

    Book: Nocedal and Wright, Numerical Optimization, 2006, algorithms 7.4 and 3.1.
    """
    point = start
    value, gradient = value_and_gradient(point)
    history: list[Change] = []
    for _ in range(steps):
        if float(gradient.abs().max()) < tolerance:
            break
        direction = -_inverse_hessian(history, gradient)
        slope, length = float((direction * gradient).sum()), 1.0
        while True:
            new_point = point + length * direction
            new_value, new_gradient = value_and_gradient(new_point)
            if new_value <= value + 1e-4 * length * slope or length < 1e-6:
                break
            length /= 2
        if new_value >= value:  # float32 cannot tell better from worse any more
            break
        moved, turned = new_point - point, new_gradient - gradient
        curvature = float((moved * turned).sum())
        if curvature > 0:
            history = [*history[1 - memory :], Change(moved, turned, curvature)]
        point, value, gradient = new_point, new_value, new_gradient
    return point


class Change(NamedTuple):
    """What one step did to the point and to the gradient, and the product of the two."""

    moved: paddle.Tensor
    turned: paddle.Tensor
    curvature: float


def _inverse_hessian(history: list[Change], vector: paddle.Tensor) -> paddle.Tensor:
    """Product of the approximate inverse Hessian and ``vector``, by the two-loop recursion."""
    result, factors = vector, []
    for change in reversed(history):
        factors.append((change.moved * result).sum() / change.curvature)
        result = result - factors[-1] * change.turned
    if history:
        result = result * (history[-1].curvature / (history[-1].turned ** 2).sum())
    for change, factor in zip(history, reversed(factors)):
        result = result + (factor - (change.turned * result).sum() / change.curvature) * change.moved
    return result
