# SPDX-License-Identifier: Apache-2.0
import numpy as np
import paddle
import pytest

from passl.engine.linear_probe import _minimise, fit_linear_probe
from tests.engine.fakes import clusters


def penalised_loss(weight, bias, x, labels, l2):
    """Mean cross entropy + l2 / 2 |W|^2 in float64, from the definition."""
    logits = x.astype("float64") @ weight + bias
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return -log_p[np.arange(len(labels)), labels].mean() + l2 / 2 * (weight**2).sum()


@pytest.mark.parametrize("l2", [0.1, 1e-3])
def test_the_fit_is_the_minimum_of_the_penalised_cross_entropy(l2):
    features, labels = clusters(200, 4, dim=6, noise=2.0)
    features = features @ np.diag([100, 1, 1, 0.01, 1, 1]).astype("float32") + 5  # badly scaled, correlated below
    features[:, 1] += 3 * features[:, 2]
    model = fit_linear_probe(features, labels, 4, [l2])
    x = (features - features.mean(0)) / features.std(0)
    weight, bias = model.weight.astype("float64"), model.bias.astype("float64")
    least = penalised_loss(weight, bias, x, labels, l2)
    logits = x @ weight + bias
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    gradient = x.T @ (p - np.eye(4)[labels]) / 200 + l2 * weight
    assert np.abs(gradient).max() < 1e-3
    rng = np.random.default_rng(0)
    for size in (0.3, 0.1, 0.03):
        elsewhere = weight + size * rng.standard_normal(weight.shape)
        assert penalised_loss(elsewhere, bias, x, labels, l2) > least
    assert np.allclose(model.logits(features), logits, atol=1e-2)


def test_separable_classes_are_told_apart_and_noise_is_not():
    bank, labels = clusters(300, 5)
    queries, truth = clusters(100, 5, seed=7)
    assert (fit_linear_probe(bank, labels, 5).logits(queries).argmax(1) == truth).all()
    noise = np.random.default_rng(0).standard_normal((400, 8)).astype("float32")
    model = fit_linear_probe(noise[:300], labels, 5)
    assert (model.logits(noise[300:]).argmax(1) == truth).mean() < 0.4


def test_strengths_are_judged_on_images_that_were_not_fitted():
    # With more features than images every strength fits all it sees, and the weakest with the least cross entropy.
    structure, labels = clusters(60, 3, dim=300)
    noise = np.random.default_rng(0).standard_normal(structure.shape).astype("float32")
    assert fit_linear_probe(noise + 0.2 * structure, labels, 3).l2 > 0.03 > fit_linear_probe(structure, labels, 3).l2


def test_the_search_takes_few_steps_where_the_curvature_differs_a_lot():
    scales = paddle.to_tensor(np.geomspace(1, 1000, 12, dtype="float32"))
    calls = []

    def bowl(point):
        calls.append(point)
        return float((0.5 * scales * point**2).sum()), scales * point

    assert float(_minimise(bowl, paddle.ones([12]), tolerance=1e-3).abs().max()) < 2e-3
    assert len(calls) < 150  # one remembered step instead of ten: 242


def test_the_same_data_gives_the_same_weights():
    bank, labels = clusters(200, 4, noise=2.0)
    first, second = (fit_linear_probe(bank, labels, 4) for _ in range(2))
    assert np.array_equal(first.weight, second.weight) and first.l2 == second.l2


def test_constant_and_repeated_features_do_no_harm():
    bank, labels = clusters(200, 4)
    odd = np.concatenate([bank, bank[:, :2], np.full((200, 1), 7, "float32")], axis=1)
    model = fit_linear_probe(odd, labels, 4)
    assert np.isfinite(model.weight).all() and (model.logits(odd).argmax(1) == labels).all()
    assert np.isfinite(fit_linear_probe(np.ones((40, 3), "float32"), labels[:40], 4).logits(odd[:, :3])).all()


def test_a_class_that_the_bank_lacks_is_never_chosen():
    bank, labels = clusters(60, 3)
    assert fit_linear_probe(bank, labels, 9).logits(bank).argmax(1).max() < 3


def test_a_bank_of_one_image_is_an_error():
    with pytest.raises(ValueError, match="too few"):
        fit_linear_probe(np.ones((1, 3), "float32"), np.zeros(1, "int64"), 2)
