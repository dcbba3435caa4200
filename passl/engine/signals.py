# SPDX-License-Identifier: Apache-2.0
"""SIGTERM and Ctrl-C end a run after the step in hand, with a checkpoint."""

from __future__ import annotations

import signal
from typing import Any

import paddle


class StopSignal:
    """Context in which SIGTERM and SIGINT are noted; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.received: str | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        paddle.disable_signal_handler()  # Paddle's own handler aborts with a C++ traceback
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number, frame) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name
