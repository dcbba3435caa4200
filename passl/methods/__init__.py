# SPDX-License-Identifier: Apache-2.0
"""The catalogue of methods; importing it registers them all."""

from __future__ import annotations

from typing import Any

from passl.utils.registry import METHODS, build

from .base import Method
from .classifier import Classifier
from .mae import MAE
from .simclr import SimCLR


def build_method(config: dict[str, Any]) -> Method:
    """Build the method that ``config["name"]`` names, with its backbone, heads and loss: ``cfg.model``."""
    return build(config, METHODS)


__all__ = ["MAE", "METHODS", "Classifier", "Method", "SimCLR", "build_method"]
