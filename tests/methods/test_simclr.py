# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import paddle
import pytest
from paddle import nn

from passl.losses import NTXent
from passl.methods import SimCLR


def method(projector=None):
    paddle.seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(48, 16))
    return SimCLR(backbone, projector or nn.Sequential(nn.BatchNorm1D(16), nn.Linear(16, 8)), NTXent(temperature=0.5))


def views(count=2, size=5):
    rng = np.random.default_rng(1)
    return {"views": [paddle.to_tensor(rng.standard_normal([size, 3, 4, 4]).astype("float32")) for _ in range(count)]}


def test_loss_is_ntxent_of_projections_of_both_views_in_one_pass():
    simclr, batch = method(), views()
    z = simclr.projector(simclr.architecture(paddle.concat(batch["views"]))).numpy().astype("float64")
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    similarity = z @ z.T / 0.5
    np.fill_diagonal(similarity, -np.inf)
    partner = np.roll(np.arange(10), 5)
    expected = (np.log(np.exp(similarity).sum(1)) - similarity[np.arange(10), partner]).mean()
    np.testing.assert_allclose(float(simclr(batch)["loss"]), expected, rtol=1e-5)


def test_views_may_be_swapped():
    simclr, batch = method(), views()
    swapped = {"views": batch["views"][::-1]}
    np.testing.assert_allclose(float(simclr(batch)["loss"]), float(simclr(swapped)["loss"]), rtol=1e-5)


def test_every_parameter_gets_a_gradient():
    simclr = method()
    simclr(views())["loss"].backward()
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in simclr.parameters() if not p.stop_gradient)


def test_one_view_or_three_are_refused_with_the_number():
    with pytest.raises(ValueError, match="got 3"):
        method()(views(3))


def test_chance_is_that_of_a_collapsed_model():
    simclr = method(projector=nn.Linear(16, 8, weight_attr=nn.initializer.Constant(0.0)))
    nn.initializer.Constant(1.0)(simclr.projector.bias)
    np.testing.assert_allclose(float(simclr(views())["loss"]), simclr.chance_level(5)[0], rtol=1e-5)
    assert simclr.chance_level(5)[0] == math.log(9)
