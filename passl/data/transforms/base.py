# SPDX-License-Identifier: Apache-2.0
"""What every host transform has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image


class Transform(ABC):
    """``transform(image, rng)``: an RGB image in, an RGB image out (views: a list of them)."""

    gives_views = False

    @abstractmethod
    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Any:
        """Transform ``image``, drawing from ``rng`` only."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({arguments})"


def apply(transforms: Sequence[Any], image: Image.Image, rng: np.random.Generator) -> Any:
    """Run ``image`` through ``transforms`` in order."""
    for transform in transforms:
        image = transform(image, rng)
    return image


def check_pipeline(transforms: Sequence[Any], inside: str = "") -> list[Any]:
    """``transforms`` as a list.  Raises ValueError where one cannot be called or a transform follows the views."""
    pipeline = list(transforms)
    for place, transform in enumerate(pipeline):
        if not callable(transform):
            raise ValueError(
                f"{inside}transforms[{place}] is {transform!r}, expected a transform; write it as {{name: ...}}"
            )
        if getattr(transform, "gives_views", False) and (inside or place != len(pipeline) - 1):
            raise ValueError(
                f"{inside}transforms[{place}] {type(transform).__name__} gives a list of views and must be the last "
                f"entry of the data set's transforms: move what follows into the views"
            )
    return pipeline


def check_probability(value: float, name: str) -> float:
    """``value``, or ValueError where it is not in [0, 1]."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}={value} is not a probability, expected a number in [0, 1]")
    return float(value)


def check_range(value: Any, name: str, low: float = 0.0, high: float = float("inf")) -> tuple[float, float]:
    """``value`` as an ordered pair within [low, high], or ValueError."""
    pair = tuple(value) if isinstance(value, Sequence) else ()
    if len(pair) != 2 or not low <= pair[0] <= pair[1] <= high:
        raise ValueError(f"{name}={value!r}, expected [smallest, largest] with {low} <= smallest <= largest <= {high}")
    return float(pair[0]), float(pair[1])


def draw(rng: np.random.Generator, low: float, high: float) -> float:
    """A number uniform in [low, high); ``rng.random`` is several times faster than ``rng.uniform``."""
    return low + (high - low) * rng.random()


def draw_integer(rng: np.random.Generator, count: int) -> int:
    """An integer uniform in 0 .. count - 1."""
    return int(count * rng.random())
