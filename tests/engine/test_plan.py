# SPDX-License-Identifier: Apache-2.0
from passl.engine.plan import Plan


def due(method, steps):
    return [step for step in steps if method(step)]


def test_the_last_step_always_logs_saves_and_evaluates():
    plan = Plan(epochs=3, steps_per_epoch=5, max_steps=13, log_every_steps=4, save_every=2, evaluate_every=10)
    steps = range(1, plan.total_steps + 1)
    assert plan.total_steps == 13
    assert due(plan.log_due, steps) == [4, 8, 12, 13]
    assert due(plan.save_due, steps) == [10, 13]
    assert due(plan.evaluation_due, steps) == [13]
    assert due(plan.is_over, steps) == [13]


def test_checkpoints_by_epoch_and_by_step_add_up():
    plan = Plan(epochs=2, steps_per_epoch=5, save_every=1, save_every_steps=4)
    assert due(plan.save_due, range(1, 11)) == [4, 5, 8, 10]


def test_an_evaluation_before_the_first_step_happens_only_when_asked():
    assert not Plan(epochs=1, steps_per_epoch=1).evaluation_due(0)
    assert Plan(epochs=1, steps_per_epoch=1, evaluate_at_start=True).evaluation_due(0)
