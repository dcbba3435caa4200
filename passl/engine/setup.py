# SPDX-License-Identifier: Apache-2.0
"""From a checked config to the parts of a run: the only reader of the config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import paddle

from passl import runtime
from passl.data import Loader, eval_loader, precheck, train_loader
from passl.methods import Method, build_method
from passl.modeling.layers import convert_sync_batchnorm
from passl.optim import EMA, Optimizer, Schedule, freeze, param_groups, summarize
from passl.utils import distributed
from passl.utils.config import Config
from passl.utils.errors import ConfigError
from passl.utils.log import log_to_file, logger
from passl.utils.registry import BATCH_TRANSFORMS, DATASETS, EVALUATORS, OPTIMIZERS, SCHEDULES, build
from passl.utils.seed import INIT, seed_everything
from passl.weights import load_weights

from .amp import Precision
from .evaluate import TopK
from .output_dir import find_checkpoint, prepare_folder
from .plan import Plan
from .pretrained import load_trained
from .run import Run
from .writer import Writer


def setup(cfg: Config, resume: str | None = None, weights: str | None = None, overwrite: bool = False) -> Run:
    """Build the run that the checked config describes.

    Args:
        cfg: what ``check_config`` returned.
        resume: ``auto`` for the newest intact checkpoint of ``output_dir`` (none: start anew), or a folder.
        weights: a weight file to start from; not used, with a warning, when a checkpoint is resumed.
        overwrite: delete the run that ``output_dir`` holds.
    Raises:
        ConfigError, DataError, CheckpointError: with what to change.
    """
    start_device(cfg)
    output_dir = Path(cfg.output_dir)
    checkpoint = find_checkpoint(output_dir, resume)
    if distributed.is_main():
        prepare_folder(output_dir, cfg, fresh=checkpoint is None, overwrite=overwrite, resume=resume)
        log_to_file(output_dir / "log.txt")
    distributed.barrier()

    loader = training_loader(cfg)
    classes = loader.dataset.classes
    val_loader = evaluation_loader(cfg, "val", classes)
    bank_loader = evaluation_loader(cfg, "bank", classes)
    check_data(cfg, loader, val_loader)

    method = build_model(cfg)
    if weights is not None and checkpoint is not None:
        logger.warning("--weights %s is not used: the run goes on from %s", weights, checkpoint.path)
    elif weights is not None:
        logger.info("%s", load_weights(method, weights))
    if cfg.distributed.sync_batchnorm:
        method = convert_sync_batchnorm(method)
    accumulate_steps = cfg.optimizer.accumulate_steps
    plan = make_plan(cfg, len(loader))
    global_batch = loader.sampler.batch_size * distributed.world_size() * accumulate_steps
    base_batch = cfg.optimizer.base_batch_size
    lr_scale = 1.0 if base_batch is None else global_batch / base_batch
    run = Run(
        output_dir=output_dir,
        plan=plan,
        method=method,
        optimizer=make_optimizer(cfg, method, lr_scale),
        schedule=make_schedule(cfg, plan, lr_scale),
        precision=make_precision(cfg),
        train_loader=loader,
        val_loader=val_loader,
        bank_loader=bank_loader,
        evaluators=[build(e, EVALUATORS) for e in cfg.evaluate.evaluators],
        ema=EMA(method, cfg.ema.decay, cfg.ema.warmup) if cfg.ema.enabled else None,
        writer=Writer(output_dir, cfg.log.visualdl) if distributed.is_main() else None,
        seed=cfg.seed,
        accumulate_steps=accumulate_steps,
        clip_norm=cfg.optimizer.clip_norm,
        evaluate_with_ema=cfg.ema.evaluate,
        keep_last=cfg.checkpoint.keep_last,
        keep_best=cfg.checkpoint.keep_best,
        best_metric=cfg.checkpoint.metric,
        best_is_max=cfg.checkpoint.mode == "max",
        find_unused_parameters=cfg.distributed.find_unused_parameters,
    )
    if checkpoint is not None:
        run.restore(checkpoint)
        logger.info("resumed from %s at step %d of %d", checkpoint.path, run.step, plan.total_steps)
    elif run.writer is not None:
        run.writer.rewind(0)
    announce(run, lr_scale)
    return run


def setup_evaluation(cfg: Config, weights: str) -> tuple[Method, list, Loader, Loader | None]:
    """The method with its weights, the evaluators, and the loaders that they need.

    Args:
        cfg: what ``check_config`` returned.
        weights: a weight file of any known layout, or a checkpoint folder.
    Raises:
        ConfigError: the config names no evaluators or no images to evaluate on.
        CheckpointError: the weights do not fit, or lack the classifier that TopK needs.
    """
    start_device(cfg)
    evaluators = [build(e, EVALUATORS) for e in cfg.evaluate.evaluators]
    if not evaluators:
        raise ConfigError("evaluate.evaluators is empty: add e.g. -o 'evaluate.evaluators=[{name: TopK}]'")
    method = build_model(cfg)
    classifies = any(isinstance(e, TopK) for e in evaluators)
    classes = load_trained(method, weights, classifies, averaged=cfg.ema.evaluate)
    val_loader = evaluation_loader(cfg, "val", classes)
    if val_loader is None:
        raise ConfigError("dataloader.val is missing: it says which images to evaluate on")
    needs_bank = any(e.needs_bank for e in evaluators)
    return method, evaluators, val_loader, evaluation_loader(cfg, "bank", classes) if needs_bank else None


def setup_prediction(cfg: Config, weights: str) -> tuple[Method, list, list, list[str] | None]:
    """The method with its weights, how images of ``dataloader.val`` are transformed, and class names where known.

    Args:
        cfg: what ``check_config`` returned.
        weights: a weight file of any known layout, or a checkpoint folder.
    Raises:
        ConfigError: the config does not say how to transform images.
    """
    start_device(cfg)
    val = cfg.dataloader.val
    if val is None:
        raise ConfigError("dataloader.val is missing: its transforms are those of the images to predict")
    method = build_model(cfg)
    classes = load_trained(method, weights, classifies=True, averaged=cfg.ema.evaluate)
    return method, val.dataset.get("transforms") or [], val.batch_transforms, classes


def make_plan(cfg: Config, num_batches: int) -> Plan:
    """The timetable, for epochs of ``num_batches`` batches."""
    return Plan(
        epochs=cfg.epochs,
        steps_per_epoch=-(-num_batches // cfg.optimizer.accumulate_steps),
        max_steps=cfg.max_steps,
        log_every_steps=cfg.log.every_steps,
        save_every=cfg.checkpoint.save_every,
        save_every_steps=cfg.checkpoint.save_every_steps,
        evaluate_every=cfg.evaluate.every,
        evaluate_at_start=cfg.evaluate.at_start,
    )


def make_optimizer(cfg: Config, method: Method, lr_scale: float) -> Optimizer:
    """The optimizer over the method's parameter groups; freezes what the config says first."""
    section = cfg.optimizer
    if section.freeze:
        frozen, method.frozen_layers = freeze(method, section.freeze)
        logger.info("%d parameters are frozen, and %d layers as a whole", len(frozen), len(method.frozen_layers))
    groups = param_groups(method, section.weight_decay, section.layer_decay, section.no_decay)
    logger.info("parameter groups:")
    for row in summarize(groups):
        logger.info(
            "  %4d tensors %13s parameters  weight decay %-8g learning rate x %.4g",
            row["tensors"], f"{row['parameters']:,}", row["weight_decay"], row["learning_rate"],
        )  # fmt: skip
    known = OPTIMIZERS.parameters(section.name)
    arguments = {key: value for key, value in section.items() if key in known or key == "name"}
    arguments["learning_rate"] = section.learning_rate * lr_scale
    return build(arguments, OPTIMIZERS, parameters=groups)


def make_schedule(cfg: Config, plan: Plan, lr_scale: float) -> Schedule:
    """The learning rate as a function of the step."""
    return build(
        cfg.lr_scheduler,
        SCHEDULES,
        base=cfg.optimizer.learning_rate,
        scale=lr_scale,
        steps_per_epoch=plan.steps_per_epoch,
        total_steps=plan.total_steps,
    )


def make_precision(cfg: Config) -> Precision:
    """Mixed precision as configured; Paddle has none on a CPU."""
    enabled = cfg.amp.enabled
    if enabled and paddle.device.get_device() == "cpu":
        logger.warning("amp.enabled: true has no effect on a CPU, where Paddle computes in float32")
        enabled = False
    return Precision(enabled, cfg.amp.dtype, cfg.amp.init_loss_scale)


def start_device(cfg: Config) -> None:
    """Choose the device and join the other processes."""
    has_gpu = paddle.device.is_compiled_with_cuda() and paddle.device.cuda.device_count() > 0
    device = ("gpu" if has_gpu else "cpu") if cfg.device == "auto" else cfg.device
    if device.startswith("gpu") and not has_gpu:
        raise ConfigError(
            f"device: {cfg.device}, but this Paddle sees no GPU: use device: cpu, or install a GPU wheel of Paddle"
        )
    if distributed.world_size() == 1 or device == "cpu":
        paddle.set_device(device)
    distributed.start(on_cpu=device == "cpu")


def build_model(cfg: Config) -> Method:
    """The method of ``cfg.model``, with the same initial weights in every process."""
    seed_everything(cfg.seed, INIT)
    method = build_method(cfg.model)
    if cfg.runtime.to_static:
        method.architecture = runtime.compile(method.architecture)
    return method


def training_loader(cfg: Config) -> Loader:
    """The loader of ``dataloader.train``: this process's part of the global batches."""
    section = loader_arguments(cfg.dataloader.train, cfg.seed)
    return train_loader(build(cfg.dataloader.train.dataset, DATASETS), **section)


def evaluation_loader(cfg: Config, split: str, classes: list[str] | None) -> Loader | None:
    """The loader of ``dataloader.val`` or ``.bank``, where the config has it; labels follow ``classes``."""
    section = cfg.dataloader[split]
    if section is None:
        return None
    config = dict(section.dataset)
    if classes is not None and "classes" in DATASETS.parameters(config["name"]):
        config.setdefault("classes", classes)  # the training data decides which label a class has
    return eval_loader(build(config, DATASETS), **loader_arguments(section, cfg.seed))


def loader_arguments(section: Config, seed: int) -> dict[str, Any]:
    """A loader section as arguments, its batch transforms built."""
    arguments = {key: value for key, value in section.items() if key != "dataset"}
    arguments["batch_transforms"] = [build(t, BATCH_TRANSFORMS) for t in section.batch_transforms]
    return {**arguments, "seed": seed}


def check_data(cfg: Config, train: Loader, val: Loader | None) -> None:
    """Look at the data before the first step; the main process reports for all."""
    if distributed.is_main():
        num_classes = cfg.model.get("head", {}).get("num_classes")
        img_size = cfg.model.architecture.get("img_size")
        bad = cfg.dataloader.train.on_bad_file
        logger.info("train: %s", precheck(train.dataset, num_classes, img_size, on_bad_file=bad))
        if val is not None:
            known, bad = train.dataset.classes, cfg.dataloader.val.on_bad_file
            name = "dataloader.val.dataset"
            logger.info("val: %s", precheck(val.dataset, num_classes, img_size, known, on_bad_file=bad, name=name))
    distributed.barrier()


def announce(run: Run, lr_scale: float) -> None:
    """Print what is about to happen in figures: sizes, learning rate, groups, chance level."""
    trainable = sum(p.size for p in run.method.parameters() if not p.stop_gradient)
    logger.info("%s with %s trainable parameters", type(run.method).__name__, f"{trainable:,}")
    plan, schedule = run.plan, run.schedule
    logger.info(
        "%d steps in %d epochs of %d images; %d images a step (%d a process x %d processes x %d accumulated)",
        plan.total_steps, plan.epochs, len(run.train_loader.dataset), run.global_batch,
        run.train_loader.sampler.batch_size, distributed.world_size(), run.accumulate_steps,
    )  # fmt: skip
    peak = max(schedule(step) for step in range(0, plan.total_steps, max(1, plan.total_steps // 1000)))
    logger.info("learning rate: peak %.4g (scaled by %.4g for the global batch)", peak, lr_scale)
    chance = run.method.chance_level(run.global_batch)
    if chance is not None:
        logger.info("loss at chance level: %.4f (%s)", *chance)
