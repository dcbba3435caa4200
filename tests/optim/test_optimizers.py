# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import numpy as np
import paddle
import pytest
from paddle import nn

from passl.optim import LARS, SGD, AdamW, load_optimizer_state, optimizer_state, param_groups
from passl.utils.errors import CheckpointError
from passl.utils.registry import OPTIMIZERS
from tests.training_cases import assert_array, load_cases, realize

CASES = load_cases("optim/cases/optimizers.json")


class Pair(nn.Layer):
    """The two tensors of the reference cases."""

    def __init__(self, w, b):
        super().__init__()
        self.w, self.b = self.create_parameter(list(w.shape)), self.create_parameter(list(b.shape))
        self.w.set_value(w)
        self.b.set_value(b)


def torch_betas(p):
    return {"beta1": p["betas"][0], "beta2": p["betas"][1]}


# case -> optimizer for (groups of w and b, params)
SAME = {
    "adamw": lambda w, b, p: AdamW([w, b], p["lr"], p["weight_decay"], **torch_betas(p)),
    "adamw_betas_095_exclude_1d": lambda w, b, p: AdamW(
        [{"params": [w]}, {"params": [b], "weight_decay": 0.0}], p["lr"], p["weight_decay"], **torch_betas(p)
    ),
    "sgd_momentum": lambda w, b, p: SGD([w, b], p["lr"], p["weight_decay"], p["momentum"]),
    "sgd_nesterov": lambda w, b, p: SGD([w, b], p["lr"], p["weight_decay"], p["momentum"], nesterov=True),
    "lars_mocov3": lambda w, b, p: LARS([w, b], p["lr"], p["weight_decay"], p["momentum"], p["trust_coefficient"]),
    "lars_barlow": lambda w, b, p: LARS(
        [{"params": [w]}, {"params": [b], "learning_rate": p["lr_b"] / p["lr_w"]}],
        p["lr_w"],
        p["weight_decay"],
        p["momentum"],
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", SAME)
def test_equals_the_reference_after_one_and_ten_steps(name):
    case = CASES[name]
    inputs = {key: realize(recipe) for key, recipe in case["inputs"].items()}
    model = Pair(inputs["w"], inputs["b"])
    optimizer = SAME[name](model.w, model.b, case["params"])
    for step, (grad_w, grad_b) in enumerate(zip(inputs["grad_w"], inputs["grad_b"]), start=1):
        model.w.grad, model.b.grad = paddle.to_tensor(grad_w), paddle.to_tensor(grad_b)
        optimizer.step()
        if step in (1, 10):
            assert_array(model.w, case["expect"][f"step{step}"]["w"])
            assert_array(model.b, case["expect"][f"step{step}"]["b"])


@pytest.mark.parametrize("decay, expected", [(0.0, [3.0, 3.995]), (0.1, [2.998952, 3.995111])])
def test_one_lars_step_in_closed_form(decay, expected):
    p = paddle.create_parameter([1, 2], "float32")
    p.set_value(np.float32([[3, 4]]))
    p.grad = paddle.to_tensor([[0.0, 1.0]])
    LARS([p], 1.0, decay).step()
    np.testing.assert_allclose(p.numpy()[0], expected, atol=1e-6)


def test_lars_leaves_one_dimensional_and_zero_tensors_to_sgd():
    bias, zero = paddle.create_parameter([2], "float32"), paddle.create_parameter([1, 2], "float32")
    bias.set_value(np.float32([3, 4]))
    zero.set_value(np.float32([[0, 0]]))
    bias.grad, zero.grad = paddle.to_tensor([0.0, 1.0]), paddle.to_tensor([[0.0, 1.0]])
    LARS([bias, zero], 1.0, 0.1).step()
    assert bias.tolist() == [3.0, 3.0]
    assert zero.tolist() == [[0.0, -1.0]]


def model_and_data(seed=0):
    paddle.seed(seed)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    return model, paddle.randn([12, 8, 4])


def train(model, optimizer, batches):
    for batch in batches:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()


def make(name, model):
    return OPTIMIZERS.get(name)(parameters=param_groups(model, 0.05), learning_rate=0.01)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_a_resumed_run_equals_an_uninterrupted_one_bit_by_bit(name):
    straight, batches = model_and_data()
    train(straight, make(name, straight), batches)

    first, _ = model_and_data()
    optimizer = make(name, first)
    train(first, optimizer, batches[:7])
    weights, state = {k: v.numpy() for k, v in first.state_dict().items()}, optimizer_state(optimizer, first)

    nn.Linear(7, 7)  # other tensor names than in the first model
    resumed, _ = model_and_data(seed=1)
    resumed.set_state_dict(weights)
    optimizer = make(name, resumed)
    load_optimizer_state(optimizer, resumed, state)
    again = optimizer_state(optimizer, resumed)
    assert all(np.array_equal(again[key], array) for key, array in state.items())
    train(resumed, optimizer, batches[7:])
    for key, tensor in straight.state_dict().items():
        assert np.array_equal(tensor.numpy(), resumed.state_dict()[key].numpy()), key


def test_state_is_named_after_the_model_not_after_paddle():
    model, batches = model_and_data()
    optimizer = make("AdamW", model)
    train(model, optimizer, batches[:1])
    state = optimizer_state(optimizer, model)
    assert {"exp_avg/0.weight", "exp_avg_sq/2.bias", "beta1_power/0.bias", "beta2_power/2.weight"} <= set(state)
    assert len(state) == 4 * 4


def test_a_layer_that_starts_late_survives_a_resume():
    model, batches = model_and_data()
    optimizer = make("AdamW", model)
    for batch in batches[:3]:
        model[0](batch).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    state = optimizer_state(optimizer, model)
    assert not any("/2." in key for key in state)
    other, _ = model_and_data()
    other.set_state_dict(model.state_dict())
    resumed = make("AdamW", other)
    load_optimizer_state(resumed, other, state)
    train(model, optimizer, batches[3:5])
    train(other, resumed, batches[3:5])
    assert np.array_equal(model[2].weight.numpy(), other[2].weight.numpy())


@pytest.mark.parametrize(
    "spoil, text",
    [
        (lambda s: s.pop("exp_avg/0.weight"), "exp_avg/0.weight is missing"),
        (lambda s: s.update({"velocity/0.weight": np.zeros([4, 5])}), "velocity/0.weight is not known to AdamW"),
        (lambda s: s.update({"exp_avg/9.weight": np.zeros([4, 5])}), "exp_avg/9.weight is not known"),
        (lambda s: s.update({"exp_avg/0.weight": np.zeros([4, 6])}), r"has shape \[4, 6\], expected \[4, 5\]"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(spoil, text):
    model, batches = model_and_data()
    optimizer = make("AdamW", model)
    train(model, optimizer, batches[:2])
    before = optimizer_state(optimizer, model)
    spoiled = dict(before)
    spoil(spoiled)
    with pytest.raises(CheckpointError, match=text):
        load_optimizer_state(optimizer, model, spoiled)
    after = optimizer_state(optimizer, model)
    assert all(np.array_equal(after[key], array) for key, array in before.items())


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_a_parameter_without_gradient_does_not_move(name):
    model, batches = model_and_data()
    optimizer = make(name, model)
    train(model, optimizer, batches[:3])  # fills the momentum
    before = model[2].weight.numpy()
    model[0](batches[3]).square().mean().backward()
    optimizer.step()
    assert np.array_equal(model[2].weight.numpy(), before)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_the_rate_of_a_step_is_set_lr_times_the_groups_multiplier(name):
    def moved(rate, multiplier):
        p = paddle.create_parameter([2, 2], "float32", default_initializer=nn.initializer.Constant(1.0))
        optimizer = OPTIMIZERS.get(name)([{"params": [p], "learning_rate": multiplier}], 99.0, weight_decay=0.0)
        optimizer.set_lr(rate)
        assert optimizer.get_lr() == rate
        p.grad = paddle.full([2, 2], 0.5)
        optimizer.step()
        return 1.0 - p.numpy()

    np.testing.assert_allclose(moved(0.02, 0.5), 0.5 * moved(0.02, 1.0), rtol=1e-5, atol=2e-7)
    np.testing.assert_allclose(moved(0.04, 1.0), 2.0 * moved(0.02, 1.0), rtol=1e-5, atol=2e-7)


def test_gradients_are_gone_after_clear_grad():
    model, batches = model_and_data()
    optimizer = make("SGD", model)
    model(batches[0]).sum().backward()
    optimizer.clear_grad()
    assert all(p.grad is None for p in model.parameters())


def test_the_grad_scaler_unscales_the_gradients_and_skips_an_overflow(monkeypatch):
    place = SimpleNamespace(is_gpu_place=lambda: True)  # the scaler switches itself off on a CPU
    monkeypatch.setattr("paddle.amp.grad_scaler._dygraph_tracer", lambda: SimpleNamespace(_expected_place=place))
    scaler = paddle.amp.GradScaler(init_loss_scaling=4.0, use_dynamic_loss_scaling=False)
    model, batches = model_and_data()
    optimizer = make("AdamW", model)
    loss = model(batches[0]).square().mean()
    loss.backward(retain_graph=True)
    plain = model[0].weight.grad.numpy()
    optimizer.clear_grad()
    scaler.scale(loss).backward()
    np.testing.assert_allclose(model[0].weight.grad.numpy(), 4 * plain, rtol=1e-6)
    scaler.unscale_(optimizer)
    np.testing.assert_allclose(model[0].weight.grad.numpy(), plain, rtol=1e-6)
    start = model[0].weight.numpy()
    scaler.step(optimizer)
    scaler.update()
    before = model[0].weight.numpy()
    assert not np.array_equal(before, start)
    optimizer.clear_grad()
    scaler.scale(model(batches[1]).sum() * float("inf")).backward()
    scaler.step(optimizer)
    assert np.array_equal(model[0].weight.numpy(), before)


def test_unusable_parameters_are_refused():
    p = paddle.create_parameter([2], "float32")
    with pytest.raises(ValueError, match="no parameters"):
        SGD([], 0.1)
    with pytest.raises(ValueError, match="two groups"):
        SGD([{"params": [p]}, {"params": [p]}], 0.1)
    with pytest.raises(ValueError, match="keep parameters in float32"):
        SGD([paddle.create_parameter([2], "float64")], 0.1)


def test_state_of_foreign_parameters_is_refused():
    model, _ = model_and_data()
    other, _ = model_and_data()
    with pytest.raises(ValueError, match="not in the model"):
        optimizer_state(make("SGD", model), other)
