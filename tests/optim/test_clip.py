# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import paddle
import pytest

from passl.optim import clip_grad_norm
from tests.training_cases import assert_array, assert_scalar, load_cases, realize

CASES = load_cases("optim/cases/clipping.json")


def parameters_with(*gradients):
    parameters = [paddle.create_parameter(list(g.shape), "float32") for g in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = paddle.to_tensor(gradient)
    return parameters


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_equals_the_reference(name):
    case = CASES[name]
    w, b = parameters_with(*(realize(case["inputs"][key]) for key in ("grad_w", "grad_b")))
    assert_scalar(clip_grad_norm([w, b], case["params"]["max_norm"]), case["expect"]["returned"])
    assert_array(w.grad, case["expect"]["grad_w"])
    assert_array(b.grad, case["expect"]["grad_b"])


def test_parameters_without_gradient_are_passed_over():
    (p,) = parameters_with(np.float32([3, 4]))
    idle = paddle.create_parameter([2], "float32")
    assert clip_grad_norm([idle, p], 1.0) == pytest.approx(5.0)
    assert idle.grad is None
    assert clip_grad_norm([idle], 1.0) == 0.0


def test_an_infinite_limit_only_measures():
    (p,) = parameters_with(np.float32([3, 4]))
    assert clip_grad_norm([p], math.inf) == pytest.approx(5.0)
    assert p.grad.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_norm_that_is_not_finite_leaves_the_gradients_alone(bad):
    p, q = parameters_with(np.float32([bad]), np.float32([2]))
    assert not math.isfinite(clip_grad_norm([p, q], 1.0))
    assert q.grad.tolist() == [2.0]
