# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: bfloat16, or float16 with a loss scale."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import paddle


class Precision:
    """Runs the forward pass in a lower precision and scales the loss where that needs it.

    Parameters and optimizer stay in float32 (level O1).

    Args:
        enabled: False trains in float32.
        dtype: "bfloat16" or "float16"; only the latter needs a loss scale.
        init_loss_scale: first loss scale; it is halved on overflow and doubled every 2,000 good steps.
    """

    def __init__(self, enabled: bool = False, dtype: str = "bfloat16", init_loss_scale: float = 65536.0):
        self.enabled, self.dtype = enabled, dtype
        self.scaler = paddle.amp.GradScaler(
            enable=enabled and dtype == "float16", init_loss_scaling=init_loss_scale, incr_every_n_steps=2000
        )

    @property
    def skips_overflow(self) -> bool:
        """Whether a step is left out when its gradient is not finite."""
        return self.scaler.is_enable()

    def autocast(self):
        """Context of a forward pass."""
        if not self.enabled:
            return nullcontext()
        return paddle.amp.auto_cast(enable=True, dtype=self.dtype, level="O1")

    def backward(self, loss: paddle.Tensor) -> None:
        """Backward pass of the scaled loss."""
        self.scaler.scale(loss).backward()

    def unscale(self, optimizer) -> None:
        """Divide the gradients by the loss scale, before they are clipped."""
        self.scaler.unscale_(optimizer)

    def step(self, optimizer) -> None:
        """Optimizer step, left out when a float16 gradient overflowed."""
        self.scaler.step(optimizer)
        self.scaler.update()

    def state(self) -> dict[str, Any]:
        """JSON values for a checkpoint."""
        return {k: v.item() if hasattr(v, "item") else v for k, v in self.scaler.state_dict().items()}

    def load(self, state: dict[str, Any]) -> None:
        """Take over the loss scale of a checkpoint."""
        if state and self.skips_overflow:
            self.scaler.load_state_dict({**state, "scale": np.asarray([state["scale"]], np.float32)})
