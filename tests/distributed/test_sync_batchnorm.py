# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import numpy as np
import paddle
from paddle import nn

from tests.distributed.launch import run_two_processes


def test_two_halves_give_what_batchnorm_gives_on_the_whole_batch(tmp_path):
    rng = np.random.default_rng(0)
    x = 3.0 + rng.standard_normal([6, 4, 5, 5]) * np.array([0.1, 1, 2, 5]).reshape(1, 4, 1, 1)
    weight = rng.standard_normal(x.shape)
    np.savez(tmp_path / "batch.npz", x=x, weight=weight)
    worker = Path(__file__).with_name("sync_batchnorm_worker.py")
    outputs = run_two_processes(worker, tmp_path, [tmp_path / "batch.npz"])
    halves = [json.loads(next(line for line in output.splitlines() if line.startswith("{"))) for output in outputs]

    norm = nn.BatchNorm2D(4)
    norm.to(dtype="float64")
    images = paddle.to_tensor(x, stop_gradient=False)
    y = norm(images)
    (y * paddle.to_tensor(weight)).sum().backward()
    for name, expected in {"y": y, "x_grad": images.grad}.items():
        both = np.concatenate([np.array(half[name]) for half in halves])
        np.testing.assert_allclose(both, expected.numpy(), rtol=1e-6, atol=1e-9)
    for name, expected in {"mean": norm._mean, "variance": norm._variance, "weight_grad": norm.weight.grad}.items():
        for half in halves:
            np.testing.assert_allclose(np.array(half[name]), expected.numpy(), rtol=1e-6)
