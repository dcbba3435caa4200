# SPDX-License-Identifier: Apache-2.0
"""What a model is worth: accuracy, kNN, linear probe and retrieval, every image counted exactly once.

An evaluator is called with an ``EvaluationData`` and returns figures with flat names.  Accuracies
are percentages.  All processes call it together and get the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import paddle
import paddle.nn.functional as F

from passl.utils import distributed
from passl.utils.errors import ConfigError, DataError
from passl.utils.log import logger
from passl.utils.registry import EVALUATORS

from .features import extract_features, per_image
from .health import collapse_advice, feature_health
from .knn import knn_predict, nearest
from .linear_probe import STRENGTHS, fit_linear_probe


class Features(NamedTuple):
    """Features of one data set in its order."""

    values: np.ndarray  # [N, D]
    labels: np.ndarray  # [N]


class EvaluationData:
    """A method and the data that one evaluation looks at; features are computed when first asked for, once.

    Args:
        method: has ``features(images) -> [B, D]`` and, for ``TopK``, ``predict(images) -> [B, K]``.
        val_loader: the images to judge by.
        bank_loader: training images without augmentation, the known side of kNN and linear probe.
    """

    def __init__(self, method, val_loader, bank_loader=None):
        self.method = method
        self.val_loader = val_loader
        self.bank_loader = bank_loader

    @cached_property
    def val(self) -> Features:
        """Features of the validation images."""
        return self._extract(self.val_loader)

    @cached_property
    def bank(self) -> Features:
        """Features of the bank."""
        return self._extract(self.bank_loader)

    @cached_property
    def num_classes(self) -> int:
        """Classes of the bank and the validation images together."""
        return 1 + int(max(self.val.labels.max(), self.bank.labels.max()))

    @cached_property
    def health(self) -> dict[str, float]:
        """How far the validation features are from having collapsed; warns if they have."""
        figures = _on_main(lambda: feature_health(self.val.values))
        if distributed.is_main() and (advice := collapse_advice(figures)):
            logger.warning(advice)
        return figures

    def _extract(self, loader) -> Features:
        values, labels = extract_features(self.method, loader)
        if labels is None:
            raise DataError(f"the images of {loader.dataset!r} have no labels to compare with")
        if not np.isfinite(values).all():
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            raise DataError(
                f"the features of {len(bad)} of {len(values)} images are not finite (the first is image {bad[0]}): "
                "the weights have diverged"
            )
        return Features(values, labels)


@EVALUATORS.register()
class TopK:
    """Share of images whose label is among the k largest logits, and the mean cross entropy.

    Classes with equal logits are taken in the order of their numbers, so top-1 is what ``argmax``
    says.  A logit that is not a number never counts as right.  With fewer than k classes, k is the
    number of classes, and the figure is 100.

    Args:
        k: the ks, each at least 1.
    Gives: ``top1``, ``top5``, ... in percent, and ``loss``.
    """

    needs_labels, needs_bank = True, False

    def __init__(self, k: Sequence[int] = (1, 5)):
        self.k = _positive("TopK", k)
        self.figures = (*(f"top{size}" for size in self.k), "loss")
        self._explained = False

    def __call__(self, data: EvaluationData) -> dict[str, float]:
        num_classes = 0

        def outputs(batch):
            nonlocal num_classes
            if "label" not in batch:
                raise DataError(f"the images of {data.val_loader.dataset!r} have no labels to compare with")
            logits, labels = data.method.predict(batch["image"]).astype("float32"), batch["label"]  # [B, K], [B]
            num_classes = logits.shape[1]
            if int(labels.max()) >= num_classes:
                raise DataError(
                    f"a label is {int(labels.max())}, but the model knows classes 0 to {num_classes - 1}: "
                    "set the head's num_classes to the number of classes of the data set"
                )
            return classes_ahead(logits, labels), F.cross_entropy(logits, labels, reduction="none").flatten()

        ahead, losses = per_image(data.method, data.val_loader, outputs)
        if max(self.k) > num_classes and distributed.is_main() and not self._explained:
            self._explained = True
            logger.info(f"top-{max(self.k)} of {num_classes} classes counts all of them, so it is always 100 %")
        figures = {f"top{k}": _percent(ahead < min(k, num_classes)) for k in self.k}
        return {**figures, "loss": float(losses.mean(dtype=np.float64))}


@EVALUATORS.register()
class KNN:
    """Accuracy of a weighted k-nearest-neighbour vote in the bank, and the health of the features.

    Args:
        k: numbers of neighbours, each at least 1.
        temperature: of the vote, > 0; see ``knn_predict``.
    Gives: ``knn10_top1``, ``knn20_top1``, ... in percent, ``feature_std`` and ``rankme``.
    """

    needs_labels, needs_bank = True, True

    def __init__(self, k: Sequence[int] = (10, 20), temperature: float = 0.07):
        if temperature <= 0:
            raise ValueError(f"KNN needs a temperature > 0, got {temperature}")
        self.k, self.temperature = _positive("KNN", k), temperature
        self.figures = (*(f"knn{size}_top1" for size in self.k), "feature_std", "rankme")

    def __call__(self, data: EvaluationData) -> dict[str, float]:
        size = len(data.bank_loader.dataset)
        if max(self.k) > size:
            raise ConfigError(f"evaluate: KNN asks for {max(self.k)} neighbours, but the bank has only {size} images")
        share = slice(distributed.rank(), None, distributed.world_size())  # each process votes on some of the queries
        labels = data.val.labels[share]
        predictions = knn_predict(
            data.bank.values, data.bank.labels, data.val.values[share], self.k, data.num_classes, self.temperature
        )
        right = paddle.to_tensor([int((predictions[k] == labels).sum()) for k in self.k], dtype="int64")
        right = distributed.all_reduce(right).numpy()
        accuracy = {f"knn{k}_top1": 100.0 * int(n) / len(data.val.labels) for k, n in zip(self.k, right)}
        return {**accuracy, **data.health}


@EVALUATORS.register()
class LinearProbe:
    """Accuracy of a linear classifier fitted to the bank's features, and the health of the features.

    Args:
        strengths: L2 penalties to choose from, by accuracy on a held-out part of the bank.
        held_out: that part, in (0, 1).
        seed: of the split.
    Gives: ``linear_top1`` and ``linear_top5`` in percent, ``linear_l2``, the chosen strength, ``feature_std``
    and ``rankme``.
    """

    needs_labels, needs_bank = True, True
    figures = ("linear_top1", "linear_top5", "linear_l2", "feature_std", "rankme")

    def __init__(self, strengths: Sequence[float] = STRENGTHS, held_out: float = 0.2, seed: int = 0):
        if not strengths or min(strengths) <= 0:
            raise ValueError(f"LinearProbe needs strengths > 0, got {list(strengths)}")
        if not 0 < held_out < 1:
            raise ValueError(f"LinearProbe needs held_out in (0, 1), got {held_out}")
        self.strengths, self.held_out, self.seed = tuple(strengths), held_out, seed

    def __call__(self, data: EvaluationData) -> dict[str, float]:
        val, bank, num_classes = data.val, data.bank, data.num_classes

        def fit_and_judge():
            model = fit_linear_probe(bank.values, bank.labels, num_classes, self.strengths, self.held_out, self.seed)
            ahead = classes_ahead(paddle.to_tensor(model.logits(val.values)), paddle.to_tensor(val.labels)).numpy()
            accuracy = {f"linear_top{k}": _percent(ahead < k) for k in (1, 5)}
            return {**accuracy, "linear_l2": model.l2}

        return {**_on_main(fit_and_judge), **data.health}


@EVALUATORS.register()
class Retrieval:
    """Each validation image as a query among the others: does an image of its class come first, do all?

    Images that are the only one of their class have nothing to find and are left out.

    Gives: ``retrieval_recall1`` and ``retrieval_map`` (mean average precision), in percent.
    """

    needs_labels, needs_bank = True, False
    figures = ("retrieval_recall1", "retrieval_map")

    def __call__(self, data: EvaluationData) -> dict[str, float]:
        features, labels = data.val

        def judge():
            first, precision = [], []
            for begin, _, order in nearest(features, features, len(features) - 1, exclude_self=True):
                relevant = labels[order] == labels[begin : begin + len(order), None]  # [q, N - 1]
                relevant = relevant[relevant.any(axis=1)]
                ranks = np.arange(1, relevant.shape[1] + 1)
                first.append(relevant[:, 0])
                precision.append((relevant * relevant.cumsum(1) / ranks).sum(1) / relevant.sum(1))
            return np.concatenate(first), np.concatenate(precision)

        first, precision = _on_main(judge)
        if not len(first):
            raise DataError("Retrieval found no two validation images of one class")
        return {"retrieval_recall1": _percent(first), "retrieval_map": _percent(precision)}


def evaluate(method, evaluators: Sequence[Callable], val_loader, bank_loader=None) -> dict[str, float]:
    """The figures of all ``evaluators`` in one dictionary; features are computed once for all of them.

    Args:
        method, val_loader, bank_loader: see ``EvaluationData``.
        evaluators: as registered in ``EVALUATORS``.
    Raises:
        ConfigError: an evaluator needs labels, a bank or logits that there are not.
        DataError: an image was missing or came twice.
    """
    _check(method, evaluators, val_loader, bank_loader)
    data = EvaluationData(method, val_loader, bank_loader)
    figures: dict[str, float] = {}
    for evaluator in evaluators:
        figures.update(evaluator(data))
    return figures


def _check(method, evaluators, val_loader, bank_loader) -> None:
    """Refuse what cannot work before the first image is read."""
    problems = []
    for evaluator in evaluators:
        name = type(evaluator).__name__
        if evaluator.needs_bank and bank_loader is None:
            problems.append(f"evaluate: {name} compares with training images, so it needs a bank data set")
        for split, loader in {"val": val_loader, "bank": bank_loader if evaluator.needs_bank else None}.items():
            if evaluator.needs_labels and loader is not None and not _has_labels(loader.dataset):
                problems.append(f"evaluate: {name} needs labels, and the {split} data set has none")
        if isinstance(evaluator, TopK) and not hasattr(method, "predict"):
            problems.append(
                f"evaluate: {name} needs class logits, and {type(method).__name__} has none; use KNN or LinearProbe"
            )
    if problems:
        raise ConfigError(problems, source="evaluation")


def _has_labels(dataset) -> bool:
    """Class names tell; without them, the first image does."""
    return bool(dataset.classes) or "label" in dataset[0]


def classes_ahead(logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
    """How many classes come before the label's in a stable sort of the logits: int64 [B], 0 where argmax is right."""
    labels = labels.unsqueeze(1)  # [B, 1]
    own = paddle.take_along_axis(logits, labels, axis=1)  # [B, 1]
    larger = ~(logits <= own)  # [B, K]; true wherever a nan takes part
    equal_before = (logits == own) & (paddle.arange(logits.shape[1]) < labels)
    return (larger | equal_before).astype("int64").sum(axis=1)


def _on_main(function: Callable):
    """The result of ``function`` on every process, computed by one."""
    return distributed.all_gather_object(function() if distributed.is_main() else None)[0]


def _percent(values: np.ndarray) -> float:
    """100 times the mean."""
    return 100.0 * float(values.sum(dtype=np.float64)) / len(values)


def _positive(who: str, k: Sequence[int]) -> tuple[int, ...]:
    if not k or any(int(size) != size or size < 1 for size in k):
        raise ValueError(f"{who} needs a list of whole numbers of at least 1 as k, got {k!r}")
    return tuple(k)
