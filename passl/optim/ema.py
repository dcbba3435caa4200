# SPDX-License-Identifier: Apache-2.0
"""A second set of weights that follows the trained ones slowly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import paddle
from paddle import nn

from passl.utils.errors import CheckpointError


class EMA:
    """Exponential moving average of the trainable parameters: ``average += (1 - decay) * (weight - average)``.

    Buffers and frozen parameters are copied, not averaged.  timm averages floating-point buffers too.

    Args:
        model: starting point of the average; not kept.
        decay: in [0, 1).
        warmup: let the decay grow as ``1 - (1 + updates) ** (-2 / 3)`` up to ``decay``, so that the random
            initial weights do not linger; the first update copies (timm's ``use_warmup``).
    """

    def __init__(self, model: nn.Layer, decay: float = 0.9999, warmup: bool = False):
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"the decay of an average must be in [0, 1), got {decay}")
        self.decay, self.warmup = float(decay), bool(warmup)
        self.num_updates = 0
        self._averaged = {name for name, p in model.named_parameters() if not p.stop_gradient}
        self._values = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def decay_at(self, num_updates: int) -> float:
        """Decay of the update that comes after ``num_updates`` others."""
        return min(self.decay, 1.0 - (1.0 + num_updates) ** (-2.0 / 3.0)) if self.warmup else self.decay

    @paddle.no_grad()
    def update(self, model: nn.Layer) -> None:
        """Move towards the model's present weights; to be called after each optimizer step."""
        share = 1.0 - self.decay_at(self.num_updates)
        for name, tensor in model.state_dict().items():
            if name in self._averaged:
                self._values[name].lerp_(tensor, share)
            else:
                paddle.assign(tensor, self._values[name])
        self.num_updates += 1

    @paddle.no_grad()
    def swap(self, model: nn.Layer) -> None:
        """Exchange the model's weights and the averaged ones; a second call undoes it."""
        for name, tensor in model.state_dict().items():
            weight = tensor.clone()
            paddle.assign(self._values[name], tensor)
            paddle.assign(weight, self._values[name])

    @contextmanager
    def applied(self, model: nn.Layer) -> Iterator[None]:
        """Context in which the model has the averaged weights."""
        self.swap(model)
        try:
            yield
        finally:
            self.swap(model)

    def state(self) -> dict[str, np.ndarray]:
        """Averaged weights by the model's names, and ``num_updates``."""
        arrays = {name: tensor.numpy() for name, tensor in self._values.items()}
        return {**arrays, "num_updates": np.asarray(self.num_updates, dtype=np.int64)}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore what :meth:`state` returned.

        Raises:
            CheckpointError: names or shapes differ; nothing is changed then.
        """
        expected = {**{name: list(tensor.shape) for name, tensor in self._values.items()}, "num_updates": []}
        found = {name: list(array.shape) for name, array in arrays.items()}
        wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        if wrong:
            shown = "\n  - ".join(f"{n}: expected {expected.get(n)}, found {found.get(n)}" for n in wrong[:10])
            raise CheckpointError(f"the averaged weights do not fit the model ({len(wrong)} problems)\n  - {shown}")
        for name, tensor in self._values.items():
            tensor.set_value(arrays[name])
        self.num_updates = int(arrays["num_updates"])
