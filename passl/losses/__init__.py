# SPDX-License-Identifier: Apache-2.0
"""The catalogue of losses: settings in the constructor, tensors in ``forward``, computed in float32."""

from __future__ import annotations

from typing import Any

from passl.utils.registry import LOSSES, build

from .cross_entropy import CrossEntropy
from .masked_reconstruction import MaskedReconstruction, patchify, unpatchify
from .nt_xent import NTXent


def build_loss(config: dict[str, Any]):
    """Build the loss that ``config["name"]`` names, e.g. ``cfg.model.loss``."""
    return build(config, LOSSES)


__all__ = ["LOSSES", "CrossEntropy", "MaskedReconstruction", "NTXent", "build_loss", "patchify", "unpatchify"]
