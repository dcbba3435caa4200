# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import numpy as np
import paddle
import pytest

from passl.engine.run import model_arrays
from passl.engine.setup import setup, setup_evaluation
from passl.engine.trainer import finish, keep_best, run_evaluation, train
from passl.utils.config import get_config
from passl.utils.errors import ConfigError, TrainingError
from passl.utils.log import logger
from passl.utils.schema import check_config

CONFIGS = Path(__file__).parents[1] / "configs"


def make(folder, *overrides, config="classifier.yaml"):
    return setup(check_config(get_config(CONFIGS / config, [f"output_dir={folder}", *overrides])))


def trained(folder, *overrides, config="classifier.yaml"):
    run = make(folder, *overrides, config=config)
    assert train(run) is None
    finish(run, None)
    return run


def records(folder, kind):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def test_a_run_leaves_weights_checkpoints_curves_config_and_records(tmp_path):
    run = trained(tmp_path)
    assert run.step == 10
    for name in ("final.safetensors", "best.safetensors", "curves.png", "config.yaml", "log.txt", "metrics.jsonl"):
        assert (tmp_path / name).stat().st_size > 0, name
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step_00000005", "step_00000010"]
    assert [r["step"] for r in records(tmp_path, "train")] == list(range(1, 11))
    assert [r["step"] for r in records(tmp_path, "eval")] == [5, 10]


def test_two_accumulated_halves_make_the_step_of_one_batch(tmp_path):
    sgd = ["optimizer.name=SGD", "optimizer.learning_rate=0.05"]  # Adam divides rounding noise by itself
    whole = trained(tmp_path / "whole", *sgd, "dataloader.train.batch_size=8")
    halves = trained(tmp_path / "halves", *sgd, "dataloader.train.batch_size=4", "optimizer.accumulate_steps=2")
    losses = [[r["loss"] for r in records(tmp_path / name, "train")] for name in ("whole", "halves")]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    expected, found = model_arrays(whole.method), model_arrays(halves.method)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=2e-5, err_msg=name)


def test_the_last_step_of_an_epoch_takes_the_batches_that_are_left(tmp_path):
    run = make(tmp_path, "dataloader.train.batch_size=8", "optimizer.accumulate_steps=2", "epochs=1")
    assert [len(group) for group in run.batches()] == [2, 2, 1]
    run.step = 2
    assert [len(group) for group in run.batches()] == [1]


def test_batches_after_a_resume_are_those_of_the_uninterrupted_run(tmp_path):
    run = make(tmp_path)
    expected = [group[0]["index"].tolist() for group in run.batches()]
    for step in (1, 5, 7):
        run.step = step
        assert [group[0]["index"].tolist() for group in run.batches()] == expected[step:]


def test_learning_rate_is_scaled_by_the_global_batch(tmp_path):
    run = make(tmp_path, "optimizer.base_batch_size=2", "optimizer.accumulate_steps=2", "dataloader.train.batch_size=8")
    assert run.global_batch == 16
    peak = max(run.schedule(step) for step in range(run.plan.total_steps))
    assert peak == pytest.approx(1e-3 * 8)


def test_a_loss_that_is_not_finite_stops_with_a_dump_and_untouched_weights(tmp_path):
    run = make(tmp_path)
    before = model_arrays(run.method)
    forward = run.method.forward
    run.method.forward = lambda batch: {"loss": forward(batch)["loss"] * (float("nan") if run.step == 3 else 1.0)}
    with pytest.raises(TrainingError, match="not finite at step 3"):
        train(run)
    folder = tmp_path / "non_finite_step_3"
    report = json.loads((folder / "report_rank0.json").read_text())
    assert len(report["indices"]) == 8
    images = np.load(folder / "batches_rank0.npz")["0/image/0"]
    assert images.shape == (8, 3, 16, 16)
    after = model_arrays(run.method)
    assert all(np.isfinite(value).all() for value in after.values())
    assert any((before[name] != after[name]).any() for name in before)


@pytest.mark.parametrize("clipping", [(), ("optimizer.clip_norm=1.0",)], ids=["free", "clipped"])
def test_a_gradient_that_is_not_finite_stops_before_it_reaches_the_weights(tmp_path, clipping):
    run = make(tmp_path, *clipping)
    forward, weight = run.method.forward, run.method.head.fc.weight

    def finite_loss(batch):
        zero = (0 * weight).sum() if run.step == 3 else paddle.ones([])
        return {"loss": forward(batch)["loss"] + zero.sqrt()}  # the root's slope at 0 is infinite

    run.method.forward = finite_loss
    with pytest.raises(TrainingError, match="the gradient is not finite at step 3"):
        train(run)
    assert all(np.isfinite(value).all() for value in model_arrays(run.method).values())
    report = json.loads((tmp_path / "non_finite_step_3" / "report_rank0.json").read_text())
    assert report["parameters_with_non_finite_gradient"] == ["head.fc.weight"]


def test_averaged_weights_are_evaluated_and_written(tmp_path):
    run = trained(tmp_path, "ema.enabled=true", "ema.decay=0.5")
    from safetensors.numpy import load_file

    written = load_file(tmp_path / "final.safetensors")
    name = "head.fc.weight"
    with run.ema.applied(run.method):
        averaged = model_arrays(run.method)[name]
    np.testing.assert_array_equal(written[name], averaged)
    assert (written[name] != model_arrays(run.method)[name]).any()


def test_clipping_logs_the_norm_before_it_and_changes_the_training(tmp_path):
    trained(tmp_path / "free")
    trained(tmp_path / "clipped", "optimizer.clip_norm=0.01", "optimizer.name=SGD", "optimizer.learning_rate=0.1")
    norms = [r["grad_norm"] for r in records(tmp_path / "clipped", "train")]
    assert min(norms) > 0.01
    losses = [r["loss"] for r in records(tmp_path / "clipped", "train")]
    assert max(losses) - min(losses) < 0.2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_on_a_cpu_is_switched_off_with_a_warning(tmp_path, dtype, caplog):
    logger.propagate = True
    run = make(tmp_path, "amp.enabled=true", f"amp.dtype={dtype}")
    logger.propagate = False
    assert not run.precision.enabled
    assert "amp.enabled" in caplog.text


def test_frozen_parameters_stay_as_they_are(tmp_path):
    before = model_arrays(make(tmp_path / "reference").method)
    run = trained(tmp_path / "frozen", "optimizer.freeze=[architecture.*]")
    after = model_arrays(run.method)
    assert all((before[n] == after[n]).all() for n in before if n.startswith("architecture."))
    assert (before["head.fc.weight"] != after["head.fc.weight"]).any()


def test_the_statistics_of_a_frozen_stage_rest_and_those_of_others_move(tmp_path):
    before = model_arrays(make(tmp_path / "reference", config="batchnorm.yaml").method)
    run = trained(tmp_path / "frozen", "optimizer.freeze=[architecture.stages.0.*]", config="batchnorm.yaml")
    after = model_arrays(run.method)  # and the evaluations in between did not wake it
    moved = {n for n in before if n.endswith(("_mean", "_variance")) and (before[n] != after[n]).any()}
    assert {n.split(".")[2] for n in moved if ".stages." in n} == {"1"}


def test_a_best_figure_that_nobody_measures_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"checkpoint\.metric"):
        trained(tmp_path, "checkpoint.metric=top_1")


def test_a_short_run_of_static_graphs_equals_the_eager_one(tmp_path):
    sgd = ["max_steps=3", "optimizer.name=SGD", "optimizer.learning_rate=0.05"]
    trained(tmp_path / "eager", *sgd)
    trained(tmp_path / "static", *sgd, "runtime.to_static=true")
    losses = [[r["loss"] for r in records(tmp_path / name, "train")] for name in ("eager", "static")]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_an_average_that_the_checkpoint_lacks_starts_from_its_weights(tmp_path):
    trained(tmp_path, "max_steps=3")
    cfg = check_config(get_config(CONFIGS / "classifier.yaml", [f"output_dir={tmp_path}", "ema.enabled=true"]))
    run = setup(cfg, resume="auto")
    weights, averaged = model_arrays(run.method), run.ema.state()
    assert all((averaged[name] == weights[name]).all() for name in weights)
    assert run.ema.num_updates == 0


@pytest.mark.parametrize("evaluate", [True, False])
def test_a_checkpoint_folder_is_evaluated_with_the_weights_that_its_run_evaluated(tmp_path, evaluate):
    settings = ["ema.enabled=true", "ema.decay=0.5", f"ema.evaluate={str(evaluate).lower()}"]
    trained(tmp_path, *settings)
    cfg = check_config(get_config(CONFIGS / "classifier.yaml", [f"output_dir={tmp_path}", *settings]))
    expected, found = (
        model_arrays(setup_evaluation(cfg, str(tmp_path / weights))[0])
        for weights in ("final.safetensors", "checkpoints/step_00000010")
    )
    assert all((found[name] == expected[name]).all() for name in expected)


def test_the_averaged_model_is_evaluated_with_the_statistics_of_the_main_process(tmp_path, monkeypatch):
    run = make(tmp_path, "ema.enabled=true", config="batchnorm.yaml")

    def as_in_the_main_process(method):
        for tensor in method.state_dict().values():
            if tensor.stop_gradient:
                tensor.set_value(paddle.full_like(tensor, 7.0))

    seen = []

    def evaluate(method, *_):
        seen.extend(float(t.min()) for t in method.state_dict().values() if t.stop_gradient)
        return {"top1": 50.0}

    monkeypatch.setattr("passl.engine.trainer.sync_buffers", as_in_the_main_process)
    monkeypatch.setattr("passl.engine.trainer.evaluate", evaluate)
    run_evaluation(run)
    assert seen and set(seen) == {7.0}


def test_a_run_goes_on_from_a_checkpoint_in_another_folder(tmp_path):
    trained(tmp_path / "first", "max_steps=3")
    checkpoint = tmp_path / "first" / "checkpoints" / "step_00000003"
    overrides = [f"output_dir={tmp_path / 'second'}", "max_steps=5"]
    run = setup(check_config(get_config(CONFIGS / "classifier.yaml", overrides)), resume=str(checkpoint))
    train(run)
    finish(run, None)
    assert [r["step"] for r in records(tmp_path / "second", "train")] == [4, 5]


def test_another_global_batch_after_a_resume_is_said(tmp_path, caplog, monkeypatch):
    trained(tmp_path, "max_steps=3", "dataloader.train.batch_size=8")
    monkeypatch.setattr(logger, "propagate", True)
    overrides = [f"output_dir={tmp_path}", "dataloader.train.batch_size=4"]
    setup(check_config(get_config(CONFIGS / "classifier.yaml", overrides)), resume="auto")
    assert "8 images a step, now it is 4" in caplog.text


@pytest.mark.parametrize("mode", ["max", "min"])
def test_a_figure_that_is_no_number_is_not_the_best_for_ever(tmp_path, mode):
    run = make(tmp_path, f"checkpoint.mode={mode}", "checkpoint.metric=loss")
    keep_best(run, {"loss": float("nan")})
    run.step = 5
    keep_best(run, {"loss": 1.0})
    assert run.best == {"loss": 1.0, "step": 5}
