# SPDX-License-Identifier: Apache-2.0
"""Errors meant for people: each says what happened, what was expected and how to fix it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PasslError(Exception):
    """Base of every error that passl raises on purpose; tools print its text without a traceback."""


class ConfigError(PasslError, ValueError):
    """One or more faults of a config, all in one report.

    Args:
        problems: one line for each fault, starting with the key path.
        source: where the config came from, named in the first line.
    """

    def __init__(self, problems: str | Iterable[str], source: str = "config"):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        count = len(self.problems)
        head = f"{source}: {count} problem{'s' if count != 1 else ''}"
        super().__init__("\n".join([head, *(f"  - {p}" for p in self.problems)]))


class DataError(PasslError, ValueError):
    """Data on disk is missing, unreadable or does not fit the config."""


class CheckpointError(PasslError, RuntimeError):
    """A checkpoint or weight file is truncated, foreign, unsafe or does not fit the model."""


class TrainingError(PasslError, RuntimeError):
    """Training cannot go on: a non-finite loss, a full disk, a rank that disagrees."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` - did you mean 'x'?`` for the known word closest to ``word``, or an empty string."""
    by_lower = {k.lower(): k for k in map(str, known)}
    close = difflib.get_close_matches(str(word).lower(), by_lower, n=1, cutoff=0.6)
    return f" - did you mean '{by_lower[close[0]]}'?" if close else ""
