# SPDX-License-Identifier: Apache-2.0
"""The training loop, in the order in which things happen."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext

import paddle

from passl.optim import clip_grad_norm
from passl.utils import distributed
from passl.utils.errors import ConfigError, TrainingError
from passl.utils.log import logger
from passl.utils.seed import STEP, seed_everything
from passl.visualize.curves import draw_curves

from .evaluate import evaluate
from .meters import Clock, progress_bar
from .non_finite import dump
from .run import Batch, Run, sync_buffers
from .signals import StopSignal


def train(run: Run) -> str | None:
    """Train to the last step, or until a signal asks to stop.

    Returns:
        None at the end of the training, or the name of the signal; then a checkpoint was saved.
    Raises:
        TrainingError: the loss or a gradient is not finite; weights and checkpoints are untouched by that step.
    """
    model = run.method
    if distributed.world_size() > 1:
        model = paddle.DataParallel(run.method, find_unused_parameters=run.find_unused_parameters)
    run.method.train()
    if run.step == 0 and run.writer is not None:
        run.writer.samples(run.train_loader.dataset, run.seed)
    if run.evaluators and run.plan.evaluation_due(
        run.step
    ):  # before the first step, or owed since the checkpoint was written
        run_evaluation(run)
    clock = Clock()
    bar = progress_bar(run.plan.total_steps, run.step, shown=distributed.is_main())
    with StopSignal() as stop, bar:
        for batches in clock.waiting(run.batches()):
            progress = run.step / run.plan.total_steps
            seed_everything(run.seed, STEP, run.step, distributed.rank())
            run.optimizer.set_lr(run.schedule(run.step))

            run.method.before_step(progress)
            figures = forward_backward(run, model, batches)
            figures, stopping = agree(figures, stop.received is not None)
            if not math.isfinite(figures["loss"]):
                raise TrainingError(dump(run, batches, figures))
            run.precision.unscale(run.optimizer)
            run.method.after_backward(progress)
            figures["grad_norm"] = clip_grad_norm(run.method.parameters(), run.clip_norm or math.inf)
            if not (math.isfinite(figures["grad_norm"]) or run.precision.skips_overflow):
                raise TrainingError(dump(run, batches, figures))
            run.precision.step(run.optimizer)
            run.optimizer.clear_grad()
            run.method.after_step(progress)
            if run.ema is not None:
                run.ema.update(run.method)

            run.step += 1
            run.average.add(figures)
            clock.images += sum(len(batch["index"]) for batch in batches) * distributed.world_size()
            bar.update()
            if run.plan.log_due(run.step):
                log_step(run, clock, bar)
            if run.plan.save_due(run.step) or stopping:  # before evaluating: a crash there must not cost an epoch
                run.save()
            if run.evaluators and run.plan.evaluation_due(run.step) and not stopping:
                run_evaluation(run)
                clock.reset()
            if stopping:
                return stop.received or "SIGTERM"
    return None


def forward_backward(run: Run, model: paddle.nn.Layer, batches: list[Batch]) -> dict[str, float]:
    """Gradients of the mean loss over the micro-batches; returns the mean of each scalar."""
    figures: dict[str, float] = {}
    for number, batch in enumerate(batches, 1):
        for transform in run.train_loader.batch_transforms:
            batch = transform(batch)
        accumulating = number < len(batches) and distributed.world_size() > 1
        with model.no_sync() if accumulating else nullcontext():
            with run.precision.autocast():
                outputs = model(batch)
            run.precision.backward(outputs["loss"] / len(batches))
        for name, value in outputs.items():
            figures[name] = figures.get(name, 0.0) + float(value) / len(batches)
    return figures


def agree(figures: dict[str, float], stopping: bool) -> tuple[dict[str, float], bool]:
    """Mean of each scalar over the processes, and whether any of them was asked to stop."""
    if distributed.world_size() == 1:
        return figures, stopping
    values = paddle.to_tensor([*figures.values(), float(stopping)], dtype="float64")
    values = (distributed.all_reduce(values) / distributed.world_size()).tolist()
    return dict(zip(figures, values)), values[-1] > 0


def log_step(run: Run, clock: Clock, bar) -> None:
    """One line of means since the last one: terminal, log file, metrics.jsonl, VisualDL."""
    figures, speed = run.average.pop(), clock.pop()
    epoch = run.plan.epoch(run.step)
    lr = run.schedule(run.step - 1)
    if run.writer is not None:
        run.writer.write("train", run.step, {"epoch": round(epoch, 4), **figures, "lr": lr, "speed": speed})
    shown = "  ".join(f"{name} {value:.4f}" for name, value in figures.items())
    speeds = f"{speed['images_per_second']:.0f} images/s  data wait {speed['data_wait_percent']:.0f}%"
    left = (run.plan.total_steps - run.step) * run.global_batch / max(speed["images_per_second"], 1e-9)
    bar.set_postfix_str(f"{shown}  {speeds}", refresh=False)
    message = "epoch %.2f/%d  step %d/%d  %s  lr %.3g  %s  eta %s"
    eta = time.strftime("%H:%M:%S", time.gmtime(left)) if left < 86400 else f"{left / 86400:.1f} days"
    logger.info(message, epoch, run.plan.epochs, run.step, run.plan.total_steps, shown, lr, speeds, eta)


def run_evaluation(run: Run) -> dict[str, float]:
    """Evaluate the current weights (their average where there is one), log, and keep the best."""
    with run.evaluated_weights():
        sync_buffers(run.method)  # of the average too, which copied this process's own
        begin = time.perf_counter()
        figures = evaluate(run.method, run.evaluators, run.val_loader, run.bank_loader)
        seconds = time.perf_counter() - begin
        if run.keep_best:
            keep_best(run, figures)
    shown = "  ".join(f"{name} {value:.2f}" for name, value in figures.items())
    logger.info("evaluation at step %d: %s  (%.1f s)", run.step, shown, seconds)
    if run.writer is not None:
        run.writer.write("eval", run.step, {**figures, "speed": {"seconds": seconds}})
    run.method.train()
    return figures


def keep_best(run: Run, figures: dict[str, float]) -> None:
    """Write ``best.safetensors`` when the chosen figure is the best so far."""
    metric = run.best_metric or next(iter(figures))
    if metric not in figures:
        raise ConfigError(f"checkpoint.metric: no evaluator measures '{metric}', they give {', '.join(figures)}")
    value, best = figures[metric], run.best.get(metric)
    if best is None or math.isnan(best) or (value > best if run.best_is_max else value < best):
        run.best = {metric: value, "step": run.step}
        run.save_weights("best.safetensors", figures)


def finish(run: Run, stopped_by: str | None) -> None:
    """Say how the run ended; after a whole one, write the final weights and the curves."""
    if run.writer is None:
        return
    if stopped_by:
        logger.info(
            "stopped by %s after step %d of %d; a checkpoint is saved: go on with --resume auto",
            stopped_by, run.step, run.plan.total_steps,
        )  # fmt: skip
    else:
        with run.evaluated_weights():
            run.save_weights("final.safetensors", {})
        logger.info("done: weights %s", run.output_dir / "final.safetensors")
        if run.best:
            logger.info("best %s: %s", run.best, run.output_dir / "best.safetensors")
        picture = draw_curves(run.writer.records(), run.output_dir / "curves.png")
        logger.info("curves: %s", picture)
    run.writer.close()
