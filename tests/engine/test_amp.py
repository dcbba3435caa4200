# SPDX-License-Identifier: Apache-2.0
import json
from types import SimpleNamespace

from passl.engine.amp import Precision


def float16_precision(monkeypatch, **settings):
    place = SimpleNamespace(is_gpu_place=lambda: True)  # the scaler switches itself off on a CPU
    monkeypatch.setattr("paddle.amp.grad_scaler._dygraph_tracer", lambda: SimpleNamespace(_expected_place=place))
    return Precision(enabled=True, dtype="float16", **settings)


def test_a_loss_scale_comes_back_from_a_checkpoint(monkeypatch):
    saved = float16_precision(monkeypatch, init_loss_scale=128.0)
    state = json.loads(json.dumps(saved.state()))
    assert state["scale"] == 128.0
    resumed = float16_precision(monkeypatch)
    resumed.load({**state, "incr_count": 7})
    assert resumed.state() == {**state, "incr_count": 7}
    assert resumed.scaler._scale.shape == [1]


def test_a_run_in_float32_ignores_a_loss_scale_and_has_none(monkeypatch):
    state = float16_precision(monkeypatch).state()
    plain = Precision()
    plain.load(state)
    assert plain.state() == {}
    float16_precision(monkeypatch).load({})  # the checkpoint of a run in float32
