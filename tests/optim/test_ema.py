# SPDX-License-Identifier: Apache-2.0
import numpy as np
import paddle
import pytest
from paddle import nn

from passl.optim import EMA
from passl.utils.errors import CheckpointError
from tests.training_cases import assert_array, load_cases, realize

CASES = load_cases("optim/cases/ema.json")


class Row(nn.Layer):
    def __init__(self, values):
        super().__init__()
        self.row = self.create_parameter([len(values)])
        self.row.set_value(values)


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
def test_equals_timm(name):
    case = CASES[name]
    warmup = case["params"].get("use_warmup", False)
    sequence = realize(case["inputs"]["sequence"])
    first = 0 if warmup else 1  # timm's first update copies; without a warm-up ours does not
    model = Row(sequence[first])
    ema = EMA(model, case["params"]["decay"], warmup=warmup)
    for i in range(first + 1, len(sequence)):
        model.row.set_value(sequence[i])
        ema.update(model)
        assert_array(ema.state()["row"], case["expect"]["ema_after_updates_1_to_5"][i - 1])


@pytest.mark.parity
def test_the_warmup_follows_timm():
    case = CASES["timm_ema_v3_warmup"]
    ema = EMA(Row(np.float32([1])), case["params"]["decay"], warmup=True)
    for step, decay in case["expect"]["decay_at_step"].items():
        assert ema.decay_at(max(int(step) - 1, 0)) == pytest.approx(decay, rel=1e-6)


def model_with_buffers():
    paddle.seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1D(4), nn.Linear(4, 2))
    model[2].weight.stop_gradient = True
    return model


def change(model):
    model.train()
    model(paddle.randn([8, 3]))
    for p in model.parameters():
        p.set_value(p + 1.0)


def values(model):
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def test_buffers_and_frozen_parameters_are_copied():
    model = model_with_buffers()
    ema = EMA(model, 0.9)
    start = values(model)
    change(model)
    ema.update(model)
    now, state = values(model), ema.state()
    for name in ("1._mean", "1._variance", "2.weight"):
        assert np.array_equal(state[name], now[name])
        assert not np.array_equal(start[name], now[name])
    np.testing.assert_allclose(state["0.weight"], 0.9 * start["0.weight"] + 0.1 * now["0.weight"], rtol=1e-5)


def test_the_context_shows_the_average_and_gives_the_weights_back():
    model = model_with_buffers()
    ema = EMA(model, 0.9)
    change(model)
    ema.update(model)
    trained, averaged = values(model), ema.state()
    with pytest.raises(KeyboardInterrupt), ema.applied(model):
        assert all(np.array_equal(array, averaged[name]) for name, array in values(model).items())
        raise KeyboardInterrupt
    assert all(np.array_equal(array, trained[name]) for name, array in values(model).items())
    assert all(np.array_equal(array, averaged[name]) for name, array in ema.state().items())


def test_updates_leave_the_model_alone_and_share_no_memory():
    model = model_with_buffers()
    ema = EMA(model, 0.9)
    change(model)
    before = values(model)
    ema.update(model)
    assert all(np.array_equal(array, before[name]) for name, array in values(model).items())
    averaged = ema.state()
    change(model)
    assert all(np.array_equal(array, averaged[name]) for name, array in ema.state().items())


def test_a_loaded_average_goes_on_bit_by_bit():
    model = model_with_buffers()
    ema = EMA(model, 0.9, warmup=True)
    for _ in range(3):
        change(model)
        ema.update(model)
    other = EMA(model_with_buffers(), 0.9, warmup=True)
    other.load(ema.state())
    assert other.num_updates == 3
    change(model)
    ema.update(model)
    other.update(model)
    assert all(np.array_equal(array, other.state()[name]) for name, array in ema.state().items())


def test_a_foreign_state_is_refused():
    ema = EMA(Row(np.float32([1, 2])), 0.9)
    with pytest.raises(CheckpointError, match=r"row: expected \[2\], found \[3\]"):
        ema.load(EMA(Row(np.float32([1, 2, 3])), 0.9).state())


def test_a_decay_of_one_is_refused():
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        EMA(Row(np.float32([1])), 1.0)
