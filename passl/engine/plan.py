# SPDX-License-Identifier: Apache-2.0
"""When things happen in a run: pure arithmetic on the number of finished steps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The timetable of a run; each question is asked with the number of finished steps.

    Args:
        epochs: passes over the training data.
        steps_per_epoch: optimizer steps of one pass.
        max_steps: end after so many steps even if ``epochs`` are not over.
        log_every_steps: a log line each so many steps, and at the end.
        save_every: a checkpoint each so many epochs, and at the end.
        save_every_steps: and each so many steps.
        evaluate_every: an evaluation each so many epochs, and at the end.
        evaluate_at_start: and one before the first step.
    """

    epochs: int
    steps_per_epoch: int
    max_steps: int | None = None
    log_every_steps: int = 10
    save_every: int = 1
    save_every_steps: int | None = None
    evaluate_every: int = 1
    evaluate_at_start: bool = False

    @property
    def total_steps(self) -> int:
        """Steps of the whole run."""
        steps = self.epochs * self.steps_per_epoch
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def epoch(self, step: int) -> float:
        """Finished epochs, with their fraction."""
        return step / self.steps_per_epoch

    def is_over(self, step: int) -> bool:
        """Whether no step is left."""
        return step >= self.total_steps

    def log_due(self, step: int) -> bool:
        """Whether a log line follows."""
        return step % self.log_every_steps == 0 or self.is_over(step)

    def save_due(self, step: int) -> bool:
        """Whether a checkpoint follows."""
        by_step = self.save_every_steps is not None and step % self.save_every_steps == 0
        return by_step or self._ends_epochs(step, self.save_every) or self.is_over(step)

    def evaluation_due(self, step: int) -> bool:
        """Whether an evaluation follows."""
        if step == 0:
            return self.evaluate_at_start
        return self._ends_epochs(step, self.evaluate_every) or self.is_over(step)

    def _ends_epochs(self, step: int, every: int) -> bool:
        return step % (every * self.steps_per_epoch) == 0
