# SPDX-License-Identifier: Apache-2.0
"""PVT against Hugging Face's port, which keeps keys and values apart and has an epsilon of 1e-6 in all its norms."""

from __future__ import annotations

import json

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

import passl
from passl.weights import load_weights
from passl.weights.convert.pvt import HF
from tests.parity.fill import fill
from tests.parity.golden import GRADIENT_TOLERANCE, Golden, check_outputs


@pytest.mark.parity
def test_pvt_equals_the_port_of_hugging_face():
    golden = Golden("hf__pvt_tiny")
    model = passl.create_model("pvt_tiny")
    model.eval()
    arrays = {name: fill(name, shape, golden.meta["seed"]) for name, shape, _ in golden.meta["entries"]}
    report = load_weights(model, arrays)
    assert report.missing == report.unexpected == []
    check_outputs(model, golden)  # with the authors' 1e-5 in embeddings and reductions

    F.cross_entropy(model(golden.images()), paddle.to_tensor(golden.meta["labels"])).backward()
    ours = {name.removeprefix("architecture.").replace("head.fc", "head"): p for name, p in model.named_parameters()}
    expected = dict.fromkeys(ours, 0.0)
    for name, norm in zip(json.loads(str(golden["grad_names"])), golden["grad_norms"]):
        expected[HF.rename(name)[0]] += float(norm) ** 2  # keys and values together
    largest = np.sqrt(max(expected.values()))
    for name, squares in expected.items():
        norm = float(ours[name].grad.square().sum().sqrt())
        assert norm == pytest.approx(np.sqrt(squares), rel=GRADIENT_TOLERANCE, abs=1e-6 * largest), name
