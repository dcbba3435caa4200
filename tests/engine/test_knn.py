# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from passl.engine import knn as module
from passl.engine.knn import knn_predict, nearest
from tests.engine.fakes import clusters
from tests.training_cases import load_cases, realize

CASES = load_cases("engine/cases/representation.json")
KNN_CASES = [name for name in CASES if name.startswith("knn")]


def slow_vote(bank, labels, query, k, num_classes, temperature, leave_out=None):
    """One query, in plain Python and float64: (cosine, index) sorted, weights added up."""
    cosine = [float(b @ query / np.linalg.norm(b) / np.linalg.norm(query)) for b in bank.astype("float64")]
    order = sorted((i for i in range(len(bank)) if i != leave_out), key=lambda i: (-cosine[i], i))[:k]
    scores = [0.0] * num_classes
    for i in order:
        scores[labels[i]] += np.exp(cosine[i] / temperature)
    return max(range(num_classes), key=lambda c: (scores[c], -c))


@pytest.mark.parametrize("name", KNN_CASES)
def test_predictions_equal_the_reference(name):
    case = CASES[name]
    p, (centers, train, test) = case["params"], (realize(recipe) for recipe in case["inputs"].values())
    bank_labels, labels = np.arange(p["train"]) % p["num_classes"], np.arange(p["test"]) % p["num_classes"]
    bank, queries = p["spread"] * centers[bank_labels] + train, p["spread"] * centers[labels] + test
    found = knn_predict(bank, bank_labels, queries, [p["k"]], p["num_classes"], p["T"])[p["k"]]
    assert found.tolist() == case["expect"]["predictions"]
    assert 100 * (found == labels).mean() == case["expect"]["top1_percent"]


@pytest.mark.parametrize("exclude_self", [False, True])
def test_votes_equal_the_slow_formula_for_several_k_at_once(exclude_self):
    bank, labels = clusters(60, 5, noise=1.5, seed=1)
    queries = bank if exclude_self else clusters(40, 5, noise=1.5, seed=2)[0]
    found = knn_predict(bank, labels, queries, [1, 4, 20], 5, 0.2, exclude_self)
    for k in (1, 4, 20):
        left_out = range(60) if exclude_self else [None] * 40
        assert found[k].tolist() == [slow_vote(bank, labels, q, k, 5, 0.2, i) for q, i in zip(queries, left_out)]


def test_the_bank_itself_is_all_right_with_one_neighbour_and_not_without_itself():
    bank, labels = clusters(60, 5, noise=3.0)
    assert (knn_predict(bank, labels, bank, [1], 5)[1] == labels).all()
    assert (knn_predict(bank, labels, bank, [1], 5, exclude_self=True)[1] != labels).any()


def test_the_result_does_not_depend_on_the_length_of_features_or_on_chunks(monkeypatch):
    bank, labels = clusters(60, 5, noise=1.5, seed=1)
    queries = clusters(41, 5, noise=1.5, seed=2)[0]
    whole = knn_predict(bank, labels, queries, [10], 5)[10]
    lengths = np.linspace(0.1, 30, 60, dtype="float32")[:, None]
    monkeypatch.setattr(module, "CHUNK_VALUES", 60 * 4)
    assert np.array_equal(knn_predict(bank * lengths, labels, queries * 7, [10], 5)[10], whole)


def test_equally_near_neighbours_count_in_bank_order():
    bank = np.eye(4, dtype="float32")[[0, 1, 1, 1, 1, 2]]
    found = [indices.tolist() for _, _, indices in nearest(bank, bank[1:2], 3)]
    assert found == [[[1, 2, 3]]]
    assert knn_predict(bank, [0, 3, 2, 1, 0, 0], bank[1:2], [1, 2, 3], 4) == {1: [3], 2: [2], 3: [1]}


def test_a_tiny_temperature_neither_overflows_nor_loses_all_votes():
    bank, labels = clusters(30, 3)
    only_nearest = knn_predict(bank, labels, -bank, [1], 3)[1]
    assert set(only_nearest) > {0}
    assert np.array_equal(knn_predict(bank, labels, -bank, [5], 3, temperature=1e-5)[5], only_nearest)


@pytest.mark.parametrize("k, exclude_self", [([0], False), ([31], False), ([30], True), ([], False)])
def test_an_impossible_k_is_an_error(k, exclude_self):
    bank, labels = clusters(30, 3)
    with pytest.raises(ValueError, match="each k must lie between 1 and"):
        knn_predict(bank, labels, bank, k, 3, exclude_self=exclude_self)
