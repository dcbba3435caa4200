# SPDX-License-Identifier: Apache-2.0
"""Every key of a config that is no constructor's argument: its type, default, range and meaning.

``docs/config.md`` prints these tables; a test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Optional, Union

from .registry import BATCH_TRANSFORMS, DATASETS, EVALUATORS, METHODS, OPTIMIZERS, SCHEDULES, Registry

REQUIRED: Any = object()


@dataclass(frozen=True)
class Key:
    """A plain value.

    Args:
        hint: its type.
        default: REQUIRED when it must be given.
        doc: what it means, in a line.
        span: allowed numbers, such as ``(0, 1]`` or ``[1, inf)``.
        pattern: regular expression that a text must match as a whole.
    """

    hint: Any
    default: Any
    doc: str
    span: str = ""
    pattern: str = ""


@dataclass(frozen=True)
class Component:
    """A ``{name: ...}`` of a registry.

    Args:
        registry: where the name is looked up.
        default: REQUIRED when it must be given.
        doc: what it is, in a line.
        many: a list of them.
        extra: keys that stand beside the constructor's arguments.
    """

    registry: Registry
    default: Any
    doc: str
    many: bool = False
    extra: Mapping[str, Key] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A mapping of known keys.

    Args:
        doc: what it is, in a line.
        keys: its keys by name.
        optional: it is null when left out; otherwise it then has all its defaults.
    """

    doc: str
    keys: Mapping[str, Key | Component | Section]
    optional: bool = False


LOADER: dict[str, Any] = {
    "dataset": Component(DATASETS, REQUIRED, "the images, with their `transforms` (on the host, per image)"),
    "batch_size": Key(int, REQUIRED, "images in a batch of one process", "[1, inf)"),
    "num_workers": Key(
        Union[int, Literal["auto"]],
        0,
        "processes that read images; 0: the main one, auto: all cores but one",
        "[0, inf)",
    ),
    "prefetch": Key(int, 2, "batches that the workers prepare ahead", "[1, inf)"),
    "on_bad_file": Key(
        Literal["fail", "skip"], "fail", "an unreadable image stops the run, or is replaced and counted"
    ),
    "batch_transforms": Component(BATCH_TRANSFORMS, [], "done on the device, per batch, in this order", many=True),
}

TRAIN_LOADER: dict[str, Any] = {
    **LOADER,
    "shuffle": Key(bool, True, "a new order in each epoch"),
    "drop_last": Key(bool, True, "leave out a last batch that is not full"),
}

OPTIMIZER_EXTRA = {
    "base_batch_size": Key(
        Optional[int],
        None,
        "`learning_rate` is meant for this global batch and scaled linearly; null: as it is",
        "[1, inf)",
    ),
    "clip_norm": Key(Optional[float], None, "largest norm of all gradients together", "(0, inf)"),
    "accumulate_steps": Key(int, 1, "batches whose gradients make up one step", "[1, inf)"),
    "layer_decay": Key(Optional[float], None, "factor on the learning rate for each layer below the head", "(0, 1]"),
    "no_decay": Key(
        Literal["model", "1d", "none"],
        "model",
        "free of weight decay: biases and norms and what the model names, only the former (1d), or nothing",
    ),
    "freeze": Key(
        list[str],
        [],
        "parameters that are not trained: patterns such as `architecture.patch_embed.*`; what is frozen as a whole "
        "stays in evaluation mode",
    ),
}

EXPERIMENT = Section(
    "The top level.",
    {
        "model": Component(METHODS, REQUIRED, "the method, with its `architecture`, heads and loss"),
        "epochs": Key(Optional[int], None, "passes over the training images; needed for training", "[1, inf)"),
        "max_steps": Key(Optional[int], None, "stop after this many steps, if that is sooner", "[1, inf)"),
        "seed": Key(int, 0, "start of all random numbers", "[0, inf)"),
        "device": Key(
            str,
            "auto",
            "auto (a GPU if there is one), cpu, gpu, gpu:1, xpu or npu",
            pattern=r"auto|cpu|(gpu|xpu|npu)(:\d+)?",
        ),
        "output_dir": Key(Optional[str], None, "folder of the run; null: `output/<name of the config file>`"),
        "dataloader": Section(
            "The sets of images.",
            {
                "train": Section("Images to train on; needed for training.", TRAIN_LOADER, optional=True),
                "val": Section("Images to evaluate on; each counts exactly once.", LOADER, optional=True),
                "bank": Section(
                    "Training images with the transforms of `val`: what kNN and linear probe learn from.",
                    LOADER,
                    optional=True,
                ),
            },
        ),
        "optimizer": Component(OPTIMIZERS, None, "needed for training", extra=OPTIMIZER_EXTRA),
        "lr_scheduler": Component(SCHEDULES, None, "course of the learning rate; needed for training"),
        "amp": Section(
            "Mixed precision; parameters stay in float32.",
            {
                "enabled": Key(bool, False, "compute in `dtype` where that is safe"),
                "dtype": Key(Literal["bfloat16", "float16"], "bfloat16", "float16 needs a GPU"),
                "init_loss_scale": Key(float, 65536.0, "first loss scale of float16", "(0, inf)"),
            },
        ),
        "ema": Section(
            "Moving average of the weights.",
            {
                "enabled": Key(bool, False, "keep the average"),
                "decay": Key(float, 0.9999, "share of the old average in each step", "[0, 1)"),
                "warmup": Key(bool, False, "let the decay grow from 0 up to `decay`"),
                "evaluate": Key(bool, True, "evaluate the average instead of the trained weights"),
            },
        ),
        "checkpoint": Section(
            "What is kept of a run, to go on from or to use.",
            {
                "save_every": Key(int, 1, "epochs between two checkpoints", "[1, inf)"),
                "save_every_steps": Key(
                    Optional[int], None, "save within epochs too, after this many steps", "[1, inf)"
                ),
                "keep_last": Key(Optional[int], 3, "newest checkpoints to keep; null: all", "[1, inf)"),
                "keep_best": Key(bool, True, "also keep the weights with the best `metric`"),
                "metric": Key(Optional[str], None, "figure of an evaluator that says which is best; null: the first"),
                "mode": Key(Literal["max", "min"], "max", "whether a high or a low figure is good"),
            },
        ),
        "log": Section(
            "What is printed and recorded.",
            {
                "every_steps": Key(int, 10, "steps between two lines", "[1, inf)"),
                "visualdl": Key(bool, True, "record for VisualDL, where it is installed"),
            },
        ),
        "evaluate": Section(
            "Evaluation during training, and by `tools/eval.py`.",
            {
                "every": Key(int, 1, "epochs between two evaluations", "[1, inf)"),
                "at_start": Key(bool, False, "also before the first step"),
                "evaluators": Component(EVALUATORS, [], "what is measured", many=True),
            },
        ),
        "distributed": Section(
            "Several processes.",
            {
                "sync_batchnorm": Key(bool, False, "take BatchNorm's statistics over the global batch"),
                "find_unused_parameters": Key(bool, False, "allow parameters that a step does not use"),
            },
        ),
        "runtime": Section("Speed.", {"to_static": Key(bool, False, "compile the backbone to a static graph")}),
    },
)


def walk(section: Section = EXPERIMENT, path: str = "") -> Iterator[tuple[str, Key | Component | Section]]:
    """Full path and description of every key, sections included, in order."""
    for name, key in section.keys.items():
        below = f"{path}.{name}" if path else name
        yield below, key
        if isinstance(key, Section):
            yield from walk(key, below)
        elif isinstance(key, Component):
            for extra, value in key.extra.items():
                yield f"{below}.{extra}", value
