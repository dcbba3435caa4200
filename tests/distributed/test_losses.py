# SPDX-License-Identifier: Apache-2.0
"""Collectives and NT-Xent over two processes."""

from pathlib import Path

import numpy as np
import pytest

from tests.distributed import losses_worker
from tests.distributed.launch import run_two_processes
from tests.training_cases import assert_gradient, assert_scalar, load_cases, realize

CASE = load_cases("losses/cases/nt_xent.json")["ntxent_gather"]
INPUTS = {key: realize(recipe) for key, recipe in CASE["inputs"].items()}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of the two processes computed."""
    folder = tmp_path_factory.mktemp("losses")
    np.savez(folder / "inputs.npz", **INPUTS)
    run_two_processes(Path(losses_worker.__file__), folder, [folder])
    return [np.load(folder / f"{rank}.npz") for rank in range(2)]


@pytest.mark.parametrize("rank", [0, 1])
def test_each_process_gets_the_same_sum_rows_and_objects(ranks, rank):
    found = ranks[rank]
    assert found["all_reduce"].tolist() == [3.0, 30.0]
    assert found["all_reduce_left"].tolist() == [1.0 + rank, 10.0 + 10.0 * rank]
    assert found["all_gather"].tolist() == [1.0, 10.0, 2.0, 20.0]
    assert found["all_gather_int64"].tolist() == [0, 0, 1, 1]
    assert found["broadcast"].tolist() == [2.0, 20.0]
    assert found["all_gather_object"].tolist() == [[0, 1], [1, 1001]]


@pytest.mark.parametrize("rank", [0, 1])
def test_gradients_sum_over_the_processes_losses(ranks, rank):
    found = ranks[rank]
    assert found["all_reduce_with_gradient"].tolist() == [3.0, 30.0]
    assert found["all_reduce_with_gradient_gradient"].tolist() == [11.0, 22.0]
    assert found["all_gather_with_gradient"].tolist() == [1.0, 10.0, 2.0, 20.0]
    assert found["all_gather_with_gradient_gradient"].tolist() == [[11.0, 22.0], [33.0, 44.0]][rank]


@pytest.mark.parity
@pytest.mark.parametrize("rank", [0, 1])
def test_nt_xent_equals_lightly_on_two_ranks(ranks, rank):
    assert_scalar(ranks[rank]["loss"], CASE["expect"]["loss_per_rank"][rank])
    for key in ("z0", "z1"):
        assert_gradient(ranks[rank][f"{key}_gradient"], CASE["grad_per_rank"][key][rank])


def test_data_parallel_training_equals_one_process_with_the_whole_batch(ranks):
    single = losses_worker.train(INPUTS)
    for found in ranks:
        np.testing.assert_allclose(found["train_losses"], single["losses"], rtol=1e-5)
        np.testing.assert_allclose(found["train_first_gradient"], single["first_gradient"], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found["train_weight"], single["weight"].numpy(), rtol=1e-4, atol=1e-5)
    assert np.array_equal(ranks[0]["train_weight"], ranks[1]["train_weight"])
