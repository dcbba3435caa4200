# SPDX-License-Identifier: Apache-2.0
import json
import math
from pathlib import Path

import numpy as np
import paddle
import pytest

from passl.engine import health
from passl.engine.evaluate import KNN, EvaluationData, LinearProbe, Retrieval, TopK, classes_ahead, evaluate
from passl.engine.health import collapse_advice, feature_health
from passl.utils.errors import ConfigError, DataError
from passl.utils.registry import EVALUATORS, build
from tests.distributed.launch import run_two_processes
from tests.engine import evaluate_worker
from tests.engine.fakes import ArrayData, ArrayLoader, Identity, clusters
from tests.training_cases import assert_scalar, load_cases, realize

TOPK = load_cases("engine/cases/classification.json")
HEALTH = load_cases("engine/cases/representation.json")
VAL, BANK = ArrayData(*clusters(23, 3, seed=1)), ArrayData(*clusters(60, 3, seed=2))


def loaders():
    return ArrayLoader(VAL), ArrayLoader(BANK)


def top_k(logits, labels, **kwargs):
    return evaluate(Identity(), [TopK(**kwargs)], ArrayLoader(ArrayData(np.asarray(logits), np.asarray(labels))))


# top-k


def test_top_k_equals_the_reference():
    case = TOPK["topk_no_ties"]
    found = top_k(realize(case["inputs"]["logits"]), realize(case["inputs"]["labels"]))
    assert_scalar(found["top1"], case["expect"]["top1"])
    assert_scalar(found["top5"], case["expect"]["top5"])


def test_ties_are_settled_as_argmax_does_and_within_what_is_legal():
    case = TOPK["topk_ties"]
    logits, labels, expect = realize(case["inputs"]["logits"]), realize(case["inputs"]["labels"]), case["expect"]
    found = top_k(logits, labels)
    assert found["top1"] == 100 * (logits.argmax(1) == labels).mean()
    for k in ("top1", "top5"):
        assert expect[f"{k}_worst_case"] <= found[k] <= expect[f"{k}_best_case"]


def test_with_fewer_than_five_classes_top_5_is_100():
    case = TOPK["top5_fewer_classes"]
    logits = realize(case["inputs"]["logits_first3_columns_of"])[:, :3]
    found = top_k(logits, realize(case["inputs"]["labels"]))
    assert_scalar(found["top1"], case["expect"]["top1"])
    assert found["top5"] == 100


def test_the_rank_of_a_label_is_its_place_in_a_stable_sort():
    rng = np.random.default_rng(0)
    logits, labels = rng.integers(0, 4, (50, 9)).astype("float32"), rng.integers(0, 9, 50)
    places = [np.argsort(-row, kind="stable").tolist().index(label) for row, label in zip(logits, labels)]
    assert classes_ahead(paddle.to_tensor(logits), paddle.to_tensor(labels)).tolist() == places


def test_a_logit_that_is_not_a_number_never_counts_as_right():
    nan = float("nan")
    found = top_k([[nan, 1.0, 0.0], [nan, nan, nan], [0.0, 0.0, 1.0]], [0, 1, 2], k=[1, 2])
    assert found["top1"] == pytest.approx(100 / 3) and found["top2"] == pytest.approx(100 / 3)


def test_the_loss_is_the_mean_cross_entropy_of_all_images():
    rows, labels = clusters(23, 8)
    log_p = rows - np.log(np.exp(rows.astype("float64")).sum(1, keepdims=True))
    assert_scalar(top_k(rows, labels)["loss"], -log_p[np.arange(23), labels].mean())


def test_a_label_beyond_the_models_classes_is_an_error():
    with pytest.raises(DataError, match="a label is 5, but the model knows classes 0 to 2"):
        top_k(np.zeros((6, 3)), np.arange(6))


# kNN, linear probe, retrieval


def test_features_are_computed_once_for_all_evaluators():
    method = Identity()
    found = evaluate(method, [KNN([1, 5]), LinearProbe(), Retrieval()], *loaders())
    assert method.rows_seen == len(VAL) + len(BANK)
    assert found["knn1_top1"] == found["knn5_top1"] == found["linear_top1"] == found["retrieval_recall1"] == 100
    assert set(found) == {
        "knn1_top1", "knn5_top1", "linear_top1", "linear_top5", "linear_l2", "feature_std", "rankme",
        "retrieval_recall1", "retrieval_map",
    }  # fmt: skip


def test_test_labels_change_nothing_but_the_score():
    fitted = []
    for labels in (VAL.targets, (VAL.targets + 1) % 3):
        data = EvaluationData(Identity(), ArrayLoader(ArrayData(VAL.rows, labels)), ArrayLoader(BANK))
        fitted.append(LinearProbe()(data))
    assert fitted[0]["linear_top1"] == 100 and fitted[1]["linear_top1"] == 0
    assert fitted[0]["linear_l2"] == fitted[1]["linear_l2"]


def test_retrieval_equals_the_slow_formula_and_leaves_lone_images_out():
    rows, labels = clusters(21, 4, noise=2.0)
    labels[5] = 4  # the only one of its class
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    first, precision = [], []
    for query in (i for i in range(21) if i != 5):
        order = sorted((i for i in range(21) if i != query), key=lambda i: -(unit[query] @ unit[i]))
        hits = [labels[i] == labels[query] for i in order]
        first.append(hits[0])
        precision.append(np.mean([sum(hits[: n + 1]) / (n + 1) for n in range(20) if hits[n]]))
    found = evaluate(Identity(), [Retrieval()], ArrayLoader(ArrayData(rows, labels)))
    assert_scalar(found["retrieval_recall1"], 100 * np.mean(first))
    assert_scalar(found["retrieval_map"], 100 * np.mean(precision))


def test_retrieval_without_pairs_is_an_error():
    with pytest.raises(DataError, match="no two validation images"):
        evaluate(Identity(), [Retrieval()], ArrayLoader(ArrayData(*clusters(3, 3))))


def test_features_that_are_not_finite_are_an_error():
    rows = VAL.rows.copy()
    rows[4] = np.inf
    with pytest.raises(DataError, match=r"features of 1 of 23 images are not finite \(the first is image 4\)"):
        evaluate(Identity(), [KNN([1])], ArrayLoader(ArrayData(rows, VAL.targets)), ArrayLoader(BANK))


# what cannot be evaluated


def test_all_that_is_missing_is_said_before_an_image_is_read():
    method = Identity()
    unlabelled = ArrayLoader(ArrayData(VAL.rows, None, classes=[]))
    with pytest.raises(ConfigError) as error:
        evaluate(method, [TopK(), KNN()], unlabelled)
    assert len(error.value.problems) == 3 and method.rows_seen == 0
    assert "KNN compares with training images, so it needs a bank" in str(error.value)
    assert "TopK needs labels, and the val data set has none" in str(error.value)


@pytest.mark.parametrize("evaluator", [TopK(), KNN([1]), Retrieval()])
def test_images_without_labels_in_a_data_set_with_class_names_are_an_error(evaluator):
    unlabelled = ArrayLoader(ArrayData(VAL.rows, None, classes=["a", "b"]))
    with pytest.raises(DataError, match="have no labels to compare with"):
        evaluate(Identity(), [evaluator], unlabelled, ArrayLoader(BANK))


def test_top_k_of_a_method_without_logits_is_an_error():
    class Pretraining(Identity):
        predict = property()

    with pytest.raises(ConfigError, match="TopK needs class logits, and Pretraining has none"):
        evaluate(Pretraining(), [TopK()], ArrayLoader(VAL))


def test_more_neighbours_than_the_bank_has_images_is_an_error():
    with pytest.raises(ConfigError, match="asks for 200 neighbours, but the bank has only 60 images"):
        evaluate(Identity(), [KNN([10, 200])], *loaders())


@pytest.mark.parametrize(
    "config",
    [
        {"name": "TopK", "k": []},
        {"name": "TopK", "k": [0]},
        {"name": "KNN", "k": [1.5]},
        {"name": "KNN", "temperature": 0},
        {"name": "LinearProbe", "held_out": 1.0},
        {"name": "LinearProbe", "strengths": [0.0]},
    ],
)
def test_a_meaningless_setting_is_an_error(config):
    with pytest.raises(ValueError, match="needs"):
        build(config, EVALUATORS)


@pytest.mark.parametrize("name", list(EVALUATORS))
def test_every_evaluator_runs_with_its_defaults_and_gives_plain_numbers(name):
    evaluator = build({"name": name}, EVALUATORS)
    found = evaluate(Identity(), [evaluator], ArrayLoader(VAL), ArrayLoader(BANK) if evaluator.needs_bank else None)
    assert tuple(found) == tuple(evaluator.figures)  # the config check knows checkpoint.metric by these
    assert json.loads(json.dumps(found)) == found
    assert all(type(value) is float and math.isfinite(value) for value in found.values())


# health


@pytest.mark.parametrize("name", [name for name in HEALTH if name.startswith("rank")])
def test_spread_and_rank_equal_the_reference(name):
    features, expect = realize(HEALTH[name]["inputs"]["z"]), HEALTH[name]["expect"]
    found = feature_health(features)
    assert_scalar(found["rankme"], expect["rankme"])
    assert_scalar(found["feature_std"] / features.shape[1] ** 0.5, expect["std_l2"])


def test_the_rank_of_very_many_images_is_that_of_a_sample(monkeypatch):
    rows = np.random.default_rng(0).standard_normal((400, 5)).astype("float32")
    whole = feature_health(rows)["rankme"]
    monkeypatch.setattr(health, "MAX_ROWS", 100)
    sampled = feature_health(rows)["rankme"]
    assert sampled != whole and sampled == pytest.approx(whole, rel=0.02)


@pytest.mark.parametrize("name, collapsed", [("rank_and_std_isotropic", False), ("rank_and_std_collapsed_scale", True)])
def test_collapsed_features_and_only_they_get_advice(name, collapsed):
    advice = collapse_advice(feature_health(realize(HEALTH[name]["inputs"]["z"])))
    assert ("have collapsed" in advice) if collapsed else advice is None


def test_a_constant_feature_is_a_collapse_without_an_error():
    assert "have collapsed" in collapse_advice(feature_health(np.zeros((20, 4), "float32")))


def test_an_evaluation_warns_once_of_collapse(monkeypatch):
    said = []
    monkeypatch.setattr("passl.engine.evaluate.logger.warning", said.append)
    same = ArrayLoader(ArrayData(np.ones((23, 8)) + 1e-3 * VAL.rows, VAL.targets))
    evaluate(Identity(), [KNN([1]), LinearProbe([0.1])], same, ArrayLoader(BANK))
    assert len(said) == 1 and "feature_std 0.00" in said[0]


# batch sizes and processes


def test_figures_are_the_same_for_any_batch_size_and_number_of_processes(tmp_path):
    one = {str(size): evaluate_worker.figures(size) for size in (7, 64)}
    run_two_processes(Path(evaluate_worker.__file__), tmp_path, [tmp_path])
    both = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert 5 < one["7"]["top1"] < 50 < one["7"]["knn1_top1"]
    for found in (one["64"], *(by_size[size] for by_size in both for size in ("7", "64"))):
        for name, value in one["7"].items():
            if name in ("loss", "feature_std", "rankme"):
                assert_scalar(found[name], value)
            else:
                assert found[name] == value, name
