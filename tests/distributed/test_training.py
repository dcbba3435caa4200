# SPDX-License-Identifier: Apache-2.0
"""Two processes with half the batch each compute what one process computes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.distributed.launch import run_two_processes

REPOSITORY = Path(__file__).parents[2]
WORKER = REPOSITORY / "tests" / "distributed" / "methods_worker.py"


def losses(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return np.array([record["loss"] for record in records if record["kind"] == "train"])


def evaluations(folder):
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in r.items() if k not in ("speed", "loss")} for r in records if r["kind"] == "eval"]


@pytest.mark.parametrize("config", ["classifier.yaml", "batchnorm.yaml", "simclr.yaml"])
def test_ten_steps_of_two_processes_equal_those_of_one(tmp_path, config):
    path = str(REPOSITORY / "tests" / "configs" / config)
    one = [sys.executable, str(WORKER), path, str(tmp_path / "one"), "dataloader.train.batch_size=8"]
    subprocess.run(one, check=True, capture_output=True, cwd=REPOSITORY, env=environment())
    run_two_processes(WORKER, tmp_path, [path, str(tmp_path / "two"), "dataloader.train.batch_size=4"])
    single, double = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert len(single) == 10
    np.testing.assert_allclose(double, single, rtol=1e-5)
    assert evaluations(tmp_path / "two") == evaluations(tmp_path / "one")


def environment():
    import os

    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}
