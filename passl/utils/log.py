# SPDX-License-Identifier: Apache-2.0
"""The one logger: the main process prints everything from INFO on, the others only warnings, with their rank."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from . import distributed

logger = logging.getLogger("passl")


class _Console(logging.StreamHandler):
    """Writes to whatever ``sys.stdout`` is at the time."""

    def __init__(self):
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stdout


class _Format(logging.Formatter):
    """``12:34:56 text``; warnings and above name their level, and other processes their rank."""

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        rank = f"[rank {distributed.rank()}] " if not distributed.is_main() else ""
        text = f"{self.formatTime(record, self.datefmt)} {rank}{level}{record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up() -> None:
    """Give ``logger`` its console handler and level; a second call changes nothing, the root logger stays as it is."""
    if not any(isinstance(handler, _Console) for handler in logger.handlers):
        console = _Console()
        console.setFormatter(_Format(datefmt="%H:%M:%S"))
        logger.addHandler(console)
    logger.propagate = False
    logger.setLevel(logging.INFO if distributed.is_main() else logging.WARNING)


def log_to_file(path: str | os.PathLike[str]) -> None:
    """Also append what is printed to a file, with dates; the file of an earlier call is closed."""
    for handler in [h for h in logger.handlers if isinstance(h, logging.FileHandler)]:
        logger.removeHandler(handler)
        handler.close()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(_Format(datefmt="%Y-%m-%d %H:%M:%S"))
    logger.addHandler(handler)


set_up()
