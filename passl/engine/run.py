# SPDX-License-Identifier: Apache-2.0
"""Everything that one training run is made of, and how it is saved and restored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from passl.data.loader import Loader
from passl.methods import Method
from passl.optim import EMA, Optimizer, load_optimizer_state, optimizer_state
from passl.utils import distributed
from passl.utils.errors import CheckpointError
from passl.utils.log import logger
from passl.weights.save import write_safetensors_atomic

from .amp import Precision
from .checkpoint import Checkpoint, save_checkpoint
from .meters import Average
from .plan import Plan
from .writer import Writer

Batch = dict[str, Any]


@dataclass
class Run:
    """The parts that ``setup`` built from a config, and the position in training.

    ``step`` counts finished optimizer steps.  One step takes ``accumulate_steps`` batches; the
    last step of an epoch takes what is left.
    """

    output_dir: Path
    plan: Plan
    method: Method
    optimizer: Optimizer
    schedule: Callable[[int], float]
    precision: Precision
    train_loader: Loader
    val_loader: Loader | None
    bank_loader: Loader | None
    evaluators: list[Callable]
    ema: EMA | None
    writer: Writer | None  # only in the main process
    seed: int
    accumulate_steps: int = 1
    clip_norm: float | None = None
    evaluate_with_ema: bool = True
    keep_last: int | None = 3
    keep_best: bool = True
    best_metric: str | None = None  # None: the first figure
    best_is_max: bool = True
    find_unused_parameters: bool = False
    step: int = 0
    best: dict[str, float] = field(default_factory=dict)
    average: Average = field(default_factory=Average)

    @property
    def global_batch(self) -> int:
        """Images that one optimizer step sees, over all processes."""
        return self.train_loader.sampler.batch_size * self.accumulate_steps * distributed.world_size()

    @property
    def classes(self) -> list[str] | None:
        """Class names of the training data; stored with the weights, so that labels keep their meaning."""
        return self.train_loader.dataset.classes

    def batches(self) -> Iterator[list[Batch]]:
        """The micro-batches of each step, from the current step to the last."""
        remaining = self.plan.total_steps - self.step
        epoch, start = divmod(self.step, self.plan.steps_per_epoch)
        while remaining > 0:
            group: list[Batch] = []
            first = start * self.accumulate_steps
            for number, batch in enumerate(self.train_loader.iter_epoch(epoch, start_batch=first), first + 1):
                group.append(batch)
                if len(group) == self.accumulate_steps or number == len(self.train_loader):
                    yield group
                    group = []
                    remaining -= 1
                    if remaining == 0:
                        self.report_bad_files(epoch)
                        return
            self.report_bad_files(epoch)
            epoch, start = epoch + 1, 0

    def report_bad_files(self, epoch: int) -> None:
        """Say how many images could not be read in an epoch (``on_bad_file: skip``)."""
        bad = sorted({file.path for file in self.train_loader.bad_files})
        if bad:
            shown = ", ".join(bad[:5]) + (", …" if len(bad) > 5 else "")
            logger.warning("epoch %d: %d unreadable images were replaced by others: %s", epoch + 1, len(bad), shown)

    @contextmanager
    def evaluated_weights(self) -> Iterator[None]:
        """Context in which the method has the weights that are evaluated and published: the averaged ones, if any."""
        if self.ema is None or not self.evaluate_with_ema:
            yield
        else:
            with self.ema.applied(self.method):
                yield

    def save(self) -> None:
        """Write a checkpoint of the current step; the main process writes for all."""
        sync_buffers(self.method)
        if distributed.is_main():
            assert self.writer is not None
            training = {f"optimizer/{k}": v for k, v in optimizer_state(self.optimizer, self.method).items()}
            if self.ema is not None:
                training |= {f"ema/{k}": v for k, v in self.ema.state().items()}
            state = {
                "world_size": distributed.world_size(),
                "global_batch": self.global_batch,
                "best": self.best,
                "average": self.average.state(),
                "loss_scale": self.precision.state(),
                "metrics_position": self.writer.position(),
                "classes": self.classes,
            }
            checkpoint = Checkpoint(self.step, model_arrays(self.method), training, state)
            save_checkpoint(self.output_dir / "checkpoints", checkpoint, self.keep_last)
        distributed.barrier()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over a checkpoint; the next step is the one after it.

        Raises:
            CheckpointError: its tensors do not fit this method.
        """
        load_model_arrays(self.method, checkpoint.model, str(checkpoint.path))
        parts: dict[str, dict[str, np.ndarray]] = {"optimizer": {}, "ema": {}}
        for key, value in checkpoint.training.items():
            part, name = key.split("/", 1)
            parts[part][name] = value
        load_optimizer_state(self.optimizer, self.method, parts["optimizer"])
        if self.ema is not None and parts["ema"]:
            self.ema.load(parts["ema"])
        elif self.ema is not None:
            logger.warning("%s has no averaged weights: the average starts from its trained ones", checkpoint.path)
            self.ema = EMA(self.method, self.ema.decay, self.ema.warmup)
        state = checkpoint.state
        if state["global_batch"] != self.global_batch:
            logger.warning(
                "the run had %d images a step, now it is %d: step %d is another place in the epochs and in the "
                "schedule than it was", state["global_batch"], self.global_batch, checkpoint.step,
            )  # fmt: skip
        self.step, self.best = checkpoint.step, state["best"]
        self.average.load(state["average"])
        self.precision.load(state["loss_scale"])
        if self.writer is not None:
            self.writer.rewind(state["metrics_position"])

    def save_weights(self, name: str, figures: dict[str, float]) -> None:
        """Write the method's weights (averaged ones where they are evaluated) to ``output_dir/name``."""
        if distributed.is_main():
            metadata = {"step": str(self.step), **{k: f"{v:.6g}" for k, v in figures.items()}}
            if self.classes is not None:
                metadata["classes"] = json.dumps(self.classes)
            write_safetensors_atomic(self.output_dir / name, model_arrays(self.method), metadata)


def model_arrays(method: Method) -> dict[str, np.ndarray]:
    """Parameters and buffers by structured name."""
    return {name: tensor.numpy() for name, tensor in method.state_dict().items()}


def load_model_arrays(method: Method, arrays: dict[str, np.ndarray], source: str) -> None:
    """Set every parameter and buffer of ``method``; names and shapes must agree exactly."""
    own = method.state_dict()
    problems = [f"{n} is missing" for n in own if n not in arrays]
    problems += [f"{n} is unknown to this model" for n in arrays if n not in own]
    problems += [
        f"{n} is {list(arrays[n].shape)}, the model needs {own[n].shape}"
        for n in own
        if n in arrays and list(arrays[n].shape) != own[n].shape
    ]
    if problems:
        shown = "\n".join(f"  - {p}" for p in problems[:10])
        more = f"\n  … and {len(problems) - 10} more" if len(problems) > 10 else ""
        raise CheckpointError(f"{source} does not fit the model of this config:\n{shown}{more}")
    for name, tensor in own.items():
        tensor.set_value(arrays[name])


def sync_buffers(method: Method) -> None:
    """Give every process the main process's untrained tensors: running statistics differ without SyncBatchNorm."""
    if distributed.world_size() > 1:
        for tensor in method.state_dict().values():
            if tensor.stop_gradient:
                distributed.broadcast(tensor)
