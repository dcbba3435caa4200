# SPDX-License-Identifier: Apache-2.0
"""Schedules: pure functions of the step, for learning rates and for whatever else changes over a run.

``schedule(step)`` is the value that optimizer step number ``step`` (from 0) uses.  It depends on nothing
else, so a resumed run needs no state.  It is ``warmup_start`` at step 0, exactly ``base`` at the end of
the warm-up, and exactly ``final`` at step ``total_steps`` and later.

A YAML says how the curve looks (durations in epochs, values for the reference batch); the engine adds
what it alone knows::

    lr_scheduler: {name: Cosine, warmup_epochs: 10, warmup_start: 0.0, final: 1.0e-6}

    build(cfg.lr_scheduler, SCHEDULES, base=learning_rate, scale=global_batch / base_batch_size,
          total_steps=..., steps_per_epoch=...)

``scale`` multiplies every value: ``base``, ``warmup_start`` and ``final`` are all meant for the reference
batch and grow together.  A momentum, temperature or weight decay leaves it at 1.

Which official code does what (T steps in all, w of warm-up):

==============================  =========================================================================
MAE, MoCo v3                    ``Cosine``: warm-up base * t / w, half cosine over the remaining T - w
BYOL, DINO momentum and decay   ``Cosine(final=...)`` without warm-up, rising: ``base`` below ``final``
DINO, SwAV, BEiT, DINOv2        the same cosine; their warm-up divides by w - 1, so it is one step ahead
Barlow Twins, VICReg            ``Cosine(final=0.001 * base)``
SimSiam, MoCo v1 and v2         ``Cosine(by_epoch=True)`` or ``Step(by_epoch=True)``, no warm-up
timm, ``warmup_prefix=True``    ``Cosine``, ``Poly`` with T = w + t_initial; ``Step`` with milestones after w
SimMIM                          ``Linear(final=0.01 * base)``; ``Step`` (milestones count the warm-up)
PyTorch                         ``CosineAnnealingLR`` = ``Cosine``, ``MultiStepLR`` = ``Step``, ``by_epoch``
==============================  =========================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from passl.utils.registry import SCHEDULES


@dataclass(frozen=True)
class Schedule(ABC):
    """Linear warm-up, then the curve of the subclass.

    Args:
        base: value at the end of the warm-up.
        total_steps: steps of the whole run; a warm-up longer than that is cut off by its end.
        steps_per_epoch: optimizer steps of one epoch.
        scale: factor on every value, see above.
        warmup_epochs: length of the warm-up in epochs, may be fractional.
        warmup_steps: the same in steps, instead of ``warmup_epochs``.
        warmup_start: value at step 0 when there is a warm-up.
        by_epoch: hold the value constant within an epoch.
    """

    base: float
    total_steps: int
    steps_per_epoch: int
    scale: float = 1.0
    warmup_epochs: float = 0.0
    warmup_steps: int = 0
    warmup_start: float = 0.0
    by_epoch: bool = False

    def __post_init__(self):
        if self.total_steps < 1 or self.steps_per_epoch < 1:
            raise ValueError(
                "a schedule needs at least one step, "
                f"got total_steps={self.total_steps}, steps_per_epoch={self.steps_per_epoch}"
            )
        if self.warmup_steps and self.warmup_epochs:
            raise ValueError(
                f"give warmup_epochs (={self.warmup_epochs}) or warmup_steps (={self.warmup_steps}), not both"
            )
        if self.warmup_epochs < 0 or self.warmup_steps < 0:
            raise ValueError(
                f"a warm-up cannot be negative, got {self.warmup_epochs} epochs and {self.warmup_steps} steps"
            )

    def __call__(self, step: int) -> float:
        if self.by_epoch:
            step = step // self.steps_per_epoch * self.steps_per_epoch
        if step < self.warmup:
            return self.scale * _between(self.warmup_start, self.base, step / self.warmup)
        return self.scale * self.after_warmup(step)

    @property
    def warmup(self) -> int:
        """Steps of the warm-up."""
        return self.warmup_steps or round(self.warmup_epochs * self.steps_per_epoch)

    @abstractmethod
    def after_warmup(self, step: int) -> float:
        """The unscaled value at a step that is not in the warm-up."""

    def progress(self, step: int) -> float:
        """How much of the time between warm-up and end has passed, in [0, 1]."""
        return min((step - self.warmup) / max(self.total_steps - self.warmup, 1), 1.0)


def _between(start: float, end: float, share: float) -> float:
    """Linear interpolation that returns ``start`` and ``end`` exactly at 0 and 1."""
    return start * (1.0 - share) + end * share


@SCHEDULES.register()
@dataclass(frozen=True)
class Constant(Schedule):
    """``base`` throughout, after the warm-up."""

    def after_warmup(self, step: int) -> float:
        return self.base


@SCHEDULES.register()
@dataclass(frozen=True)
class Step(Schedule):
    """``base * gamma ** (number of milestones reached)``.

    Args:
        milestones: epochs, counted from the start of the run (warm-up included).
        gamma: factor at each milestone.
    """

    milestones: Sequence[float] = ()
    gamma: float = 0.1

    def after_warmup(self, step: int) -> float:
        reached = sum(step >= round(epoch * self.steps_per_epoch) for epoch in self.milestones)
        return self.base * self.gamma**reached


@SCHEDULES.register()
@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from ``base`` to ``final``.

    Paper: SGDR: Stochastic Gradient Descent with Warm Restarts, ICLR 2017, https://arxiv.org/abs/1608.03983,
    eq. 5, one cycle

    Args:
        final: value at the end of the run; may lie above ``base``.
    """

    final: float = 0.0

    def after_warmup(self, step: int) -> float:
        return _between(self.final, self.base, 0.5 * (1.0 + math.cos(math.pi * self.progress(step))))


@SCHEDULES.register()
@dataclass(frozen=True)
class Poly(Schedule):
    """``final + (base - final) * (1 - progress) ** power``.

    Args:
        power: exponent; 1 is a straight line.
        final: value at the end of the run.
    """

    power: float = 2.0
    final: float = 0.0

    def after_warmup(self, step: int) -> float:
        return _between(self.final, self.base, (1.0 - self.progress(step)) ** self.power)


@SCHEDULES.register()
@dataclass(frozen=True)
class Linear(Schedule):
    """A straight line from ``base`` to ``final``.

    Args:
        final: value at the end of the run.
    """

    final: float = 0.0

    def after_warmup(self, step: int) -> float:
        return _between(self.base, self.final, self.progress(step))
