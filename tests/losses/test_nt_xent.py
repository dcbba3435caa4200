# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import paddle
import pytest
from paddle.amp.auto_cast import AMP_LEVEL
from paddle.base.framework import _dygraph_tracer

from passl.losses import NTXent
from tests.training_cases import assert_gradient, assert_scalar, inputs_of, load_cases

CASES = load_cases("losses/cases/nt_xent.json")


def slow_nt_xent(z1, z2, temperature):
    """Equation 1 of the paper, anchor by anchor, in float64."""
    z = [v / np.linalg.norm(v) for v in np.concatenate([z1, z2]).astype(np.float64)]
    count = len(z1)
    total = 0.0
    for i in range(2 * count):
        j = (i + count) % (2 * count)
        others = sum(math.exp(z[i] @ z[k] / temperature) for k in range(2 * count) if k != i)
        total -= math.log(math.exp(z[i] @ z[j] / temperature) / others)
    return total / (2 * count)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["simclr_ntxent_t0.1", "simclr_ntxent_t0.5"])
def test_equals_lightly(name):
    case = CASES[name]
    inputs = inputs_of(case)
    loss = NTXent(case["params"]["temperature"])(inputs["z0"], inputs["z1"])
    loss.backward()
    assert_scalar(loss, case["expect"]["loss"])
    for key in ("z0", "z1"):
        assert_gradient(inputs[key].grad, case["grad"][key])


@pytest.mark.parametrize("count, temperature", [(1, 0.5), (2, 0.1), (7, 0.2)])
def test_equals_the_slow_formula(count, temperature):
    z1, z2 = np.random.default_rng(count).standard_normal([2, count, 5]).astype(np.float32)
    loss = NTXent(temperature)(paddle.to_tensor(z1), paddle.to_tensor(z2))
    assert_scalar(loss, slow_nt_xent(z1, z2, temperature))


@pytest.mark.parametrize("count, expected", [(4, 1.945910), (8, 2.708050)])
def test_equal_embeddings_give_the_chance_level_at_any_temperature(count, expected):
    z = paddle.ones([count, 3])
    for temperature in (0.1, 1.0):
        loss = NTXent(temperature)
        assert_scalar(loss(z, z), expected)
        assert loss.chance_level(count) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("count, temperature, expected", [(4, 0.5, 0.594438), (8, 0.5, 1.062879), (4, 0.1, 2.72363e-4)])
def test_orthonormal_anchors_have_a_closed_form(count, temperature, expected):
    z = paddle.eye(count)
    assert_scalar(NTXent(temperature)(z, z), expected)


def test_swapping_the_views_or_permuting_the_batch_changes_nothing():
    z1, z2 = paddle.randn([6, 4]), paddle.randn([6, 4])
    order = paddle.to_tensor([3, 0, 5, 1, 4, 2])
    loss = NTXent(0.2)
    assert_scalar(loss(z2, z1), float(loss(z1, z2)))
    assert_scalar(loss(z1[order], z2[order]), float(loss(z1, z2)))


def test_length_does_not_matter_and_the_gradient_is_orthogonal_to_the_input():
    z1, z2 = paddle.randn([6, 4]), paddle.randn([6, 4])
    z1.stop_gradient = False
    loss = NTXent(0.2)(z1, z2)
    loss.backward()
    assert_scalar(NTXent(0.2)(3 * z1, z2), float(loss))
    assert float((z1 * z1.grad).sum(-1).abs().max()) < 1e-6
    assert float(z1.grad.abs().max()) > 1e-3


def test_half_precision_embeddings_are_computed_in_float32():
    z1, z2 = paddle.randn([6, 4]).astype("bfloat16"), paddle.randn([6, 4]).astype("bfloat16")
    loss = NTXent(0.05)(z1, z2)
    assert loss.dtype == paddle.float32
    assert_scalar(loss, float(NTXent(0.05)(z1.astype("float32"), z2.astype("float32"))))


def test_a_temperature_of_zero_is_refused():
    with pytest.raises(ValueError, match="must be positive"):
        NTXent(0.0)


def test_similarities_stay_in_float32_under_mixed_precision(monkeypatch):
    tracer, matmul, levels = _dygraph_tracer(), paddle.matmul, []

    def product(*tensors, **options):
        levels.append(tracer._amp_level)
        return matmul(*tensors, **options)

    monkeypatch.setattr(paddle, "matmul", product)
    before = tracer._amp_level, tracer._amp_dtype
    tracer._amp_level, tracer._amp_dtype = AMP_LEVEL.O1, "bfloat16"  # no CPU follows it, but it can be asked for
    try:
        NTXent(0.1)(paddle.randn([4, 3]), paddle.randn([4, 3]))
    finally:
        tracer._amp_level, tracer._amp_dtype = before
    assert levels == [AMP_LEVEL.O0]
