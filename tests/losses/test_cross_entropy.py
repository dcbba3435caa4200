# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import paddle
import pytest

from passl.losses import CrossEntropy
from tests.training_cases import assert_gradient, assert_scalar, inputs_of, load_cases

CASES = load_cases("losses/cases/supervised.json")


def slow_cross_entropy(logits, targets, smoothing):
    """Paper's equation, one term at a time, in float64."""
    batch, classes = logits.shape
    total = 0.0
    for b in range(batch):
        z = sum(math.exp(v) for v in logits[b])
        for k in range(classes):
            q = (1 - smoothing) * targets[b, k] + smoothing / classes
            total -= q * math.log(math.exp(logits[b, k]) / z)
    return total / batch


def mixed_targets(labels, lam, smoothing, classes=10):
    smooth = np.full([len(labels), classes], smoothing / classes, dtype=np.float32)
    smooth[np.arange(len(labels)), labels] += 1 - smoothing
    return lam * smooth + (1 - lam) * smooth[::-1]


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_equals_torch_and_timm(name):
    case = CASES[name]
    inputs, p = inputs_of(case), case["params"]
    if name == "soft_target_ce_mixup_targets":
        targets = paddle.to_tensor(mixed_targets(inputs["labels"].numpy(), p["lam"], p["smoothing"]))
        loss = CrossEntropy()(inputs["x"], targets)
    else:
        targets = inputs["t"] if "t" in inputs else inputs["labels"]
        loss = CrossEntropy(p.get("smoothing", 0.0))(inputs["x"], targets)
    loss.backward()
    assert_scalar(loss, case["expect"]["loss"])
    assert_gradient(inputs["x"].grad, case["grad"]["x"])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_equals_the_slow_formula(smoothing):
    rng = np.random.default_rng(0)
    logits, targets = rng.standard_normal([5, 7]), rng.dirichlet(np.ones(7), size=5)
    loss = CrossEntropy(smoothing)(paddle.to_tensor(logits, "float32"), paddle.to_tensor(targets, "float32"))
    assert_scalar(loss, slow_cross_entropy(logits, targets, smoothing))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_class_numbers_and_one_hot_targets_give_the_same(smoothing):
    logits, labels = paddle.randn([5, 7]), paddle.to_tensor([0, 6, 2, 2, 5])
    loss = CrossEntropy(smoothing)
    assert_scalar(loss(logits, labels), float(loss(logits, paddle.nn.functional.one_hot(labels, 7))))


def test_equal_logits_give_the_chance_level():
    assert_scalar(CrossEntropy(0.1)(paddle.zeros([3, 10]), paddle.to_tensor([1, 2, 3])), math.log(10))


def test_half_precision_logits_are_computed_in_float32():
    logits = 20 * paddle.randn([5, 7])
    loss = CrossEntropy(0.1)(logits.astype("bfloat16"), paddle.to_tensor([0, 6, 2, 2, 5]))
    assert loss.dtype == paddle.float32
    assert_scalar(
        loss, float(CrossEntropy(0.1)(logits.astype("bfloat16").astype("float32"), paddle.to_tensor([0, 6, 2, 2, 5])))
    )


def test_labels_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"like the logits \[4, 10\], got \[4, 9\]"):
        CrossEntropy()(paddle.randn([4, 10]), paddle.randn([4, 9]))


def test_a_label_beyond_the_classes_is_refused():
    with pytest.raises(Exception, match="label"):
        CrossEntropy()(paddle.randn([2, 3]), paddle.to_tensor([0, 3]))


def test_smoothing_of_one_is_refused():
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        CrossEntropy(1.0)
