# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from passl.optim import Constant, Cosine, Linear, Poly, Step
from passl.utils.errors import ConfigError
from passl.utils.registry import SCHEDULES, build
from tests.training_cases import load_cases

CASES = load_cases("optim/cases/schedules.json")
CURVES = [Constant, Step, Cosine, Linear, Poly]


def timm(p, curve, total, **kw):
    return curve(
        base=p["base_lr"],
        total_steps=total,
        steps_per_epoch=1,
        warmup_steps=p["warmup_t"],
        warmup_start=p["warmup_lr_init"],
        **kw,
    )


def in_epochs(p, **kw):
    """A schedule of 100 steps an epoch."""
    return Cosine(
        base=p["lr"],
        total_steps=100 * p["epochs"],
        steps_per_epoch=100,
        warmup_epochs=p.get("warmup_epochs", 0),
        final=p.get("min_lr", 0.0),
        **kw,
    )


def dino(p):
    epochs, per_epoch = p["epochs"], p["niter_per_ep"]
    return Cosine(
        base=p["base_value"],
        total_steps=epochs * per_epoch,
        steps_per_epoch=per_epoch,
        warmup_epochs=p.get("warmup_epochs", 0),
        final=p["final_value"],
    )


# case -> the schedule with the same values, and the number of steps in the unit of the case's "at"
SAME = {
    "timm_cosine_warmup_prefix_True": lambda p: (timm(p, Cosine, p["t_initial"] + p["warmup_t"], final=p["lr_min"]), 1),
    "timm_poly_linear_prefix": lambda p: (
        timm(p, Poly, p["t_initial"] + p["warmup_t"], power=p["power"], final=p["lr_min"]),
        1,
    ),
    "timm_step": lambda p: (
        timm(p, Step, 100, gamma=p["decay_rate"], milestones=[p["warmup_t"] + k * p["decay_t"] for k in (1, 2, 3)]),
        1,
    ),
    "simmim_linear": lambda p: (timm(p, Linear, p["t_initial"], final=p["base_lr"] * p["lr_min_rate"]), 1),
    "simmim_multistep": lambda p: (timm(p, Step, 1000, gamma=p["gamma"], milestones=p["milestones"]), 1),
    "mae_half_cosine": lambda p: (in_epochs(p), 100),
    "mocov3_half_cosine": lambda p: (in_epochs(p), 100),
    "simsiam_cosine": lambda p: (in_epochs(p, by_epoch=True), 100.5),
    "dino_cosine_wd": lambda p: (dino(p), 1),
    "dino_cosine_momentum": lambda p: (dino(p), 1),
    "torch_cosine_annealing": lambda p: (Cosine(base=p["lr"], total_steps=p["T_max"], steps_per_epoch=1), 1),
    "torch_multistep": lambda p: (
        Step(base=p["lr"], total_steps=100, steps_per_epoch=1, gamma=p["gamma"], milestones=p["milestones"]),
        1,
    ),
    "barlow_vicreg_cosine": lambda p: (
        Cosine(
            base=p["learning_rate_weights"],
            scale=p["batch_size"] / 256,
            final=0.001 * p["learning_rate_weights"],
            total_steps=p["epochs"] * p["iters_per_epoch"],
            steps_per_epoch=p["iters_per_epoch"],
            warmup_epochs=10,
        ),
        1,
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", SAME)
def test_equals_the_official_schedule(name):
    case = CASES[name]
    schedule, unit = SAME[name](case["params"])
    last = schedule.total_steps
    for at, value in zip(case["expect"]["at"], case["expect"]["value"]):
        if name == "torch_cosine_annealing" and at > last:
            value = schedule.final  # theirs rises again
        assert schedule(math.floor(at * unit + 1e-9)) == pytest.approx(value, rel=1e-6, abs=1e-18), at


@pytest.mark.parity
@pytest.mark.parametrize("name", ["dino_cosine_lr", "swav_cosine"])
def test_equals_dino_and_swav_after_the_warmup(name):
    case = CASES[name]
    p = case["params"]
    if name == "swav_cosine":
        p = {**p, "base_value": p["base_lr"], "final_value": p["final_lr"], "niter_per_ep": p["iters_per_epoch"]}
    schedule = dino(p)
    compared = 0
    for at, value in zip(case["expect"]["at"], case["expect"]["value"]):
        if at >= schedule.warmup:
            assert schedule(at) == pytest.approx(value, rel=1e-6)
            compared += 1
    assert compared > 5


@pytest.mark.parametrize("curve", CURVES)
def test_warmup_starts_and_ends_exactly(curve):
    schedule = curve(base=0.3, total_steps=70, steps_per_epoch=7, warmup_epochs=3, warmup_start=0.1)
    assert schedule(0) == 0.1
    assert schedule(21) == 0.3
    assert [schedule(step) for step in range(22)] == sorted(schedule(step) for step in range(22))


@pytest.mark.parametrize("curve", [Cosine, Linear, Poly])
def test_final_is_reached_exactly_at_the_end_and_kept(curve):
    schedule = curve(base=0.3, total_steps=70, steps_per_epoch=7, warmup_steps=5, final=0.07)
    assert schedule(70) == 0.07 == schedule(1000)
    assert schedule(69) > 0.07
    assert schedule(69) < schedule(68)


@pytest.mark.parametrize("curve", CURVES)
def test_scale_multiplies_every_value(curve):
    common = {"base": 0.3, "total_steps": 70, "steps_per_epoch": 7, "warmup_steps": 5, "warmup_start": 0.1}
    one, four = curve(**common), curve(**common, scale=4.0)
    assert all(four(step) == 4.0 * one(step) for step in range(75))


def test_a_cosine_may_rise_from_base_to_final():
    momentum = Cosine(base=0.996, total_steps=100, steps_per_epoch=10, final=1.0)
    assert [round(momentum(step), 7) for step in (0, 25, 50, 75, 100)] == [0.996, 0.9965858, 0.998, 0.9994142, 1.0]


def test_by_epoch_changes_only_between_epochs():
    schedule = Cosine(base=1.0, total_steps=12, steps_per_epoch=4, by_epoch=True)
    values = [schedule(step) for step in range(12)]
    assert len(set(values)) == 3
    assert values[:4] == [1.0] * 4


def test_a_fractional_warmup_epoch_is_rounded_to_steps():
    assert Cosine(base=1.0, total_steps=100, steps_per_epoch=10, warmup_epochs=0.5).warmup == 5


def test_a_warmup_as_long_as_the_run_ends_at_base():
    schedule = Cosine(base=1.0, total_steps=10, steps_per_epoch=10, warmup_epochs=1)
    assert schedule(9) == 0.9
    assert schedule(10) == 1.0


def test_a_config_with_an_unknown_argument_gets_a_suggestion():
    with pytest.raises(ConfigError, match=r"warmup_epoch.*did you mean 'warmup_epochs'"):
        build({"name": "Cosine", "warmup_epoch": 5}, SCHEDULES, base=1.0, total_steps=10, steps_per_epoch=1)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"total_steps": 0}, "at least one step"),
        ({"warmup_epochs": 1, "warmup_steps": 5}, "not both"),
        ({"warmup_epochs": -1}, "negative"),
    ],
)
def test_impossible_lengths_are_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        Cosine(**{"base": 1.0, "total_steps": 10, "steps_per_epoch": 5, **arguments})
