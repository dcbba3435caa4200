# SPDX-License-Identifier: Apache-2.0
"""The catalogue of heads: classifiers, projectors, predictors and decoders."""

from __future__ import annotations

from typing import Any

from passl.utils.registry import HEADS, build

from .cls_head import ClsHead, DistilledClsHead
from .decoders import MAEDecoder
from .levit_head import LeViTHead
from .mlp_head import MLPHead
from .token_label_head import TokenLabelHead


def build_head(config: dict[str, Any]):
    """Build the head that ``config["name"]`` names, e.g. ``cfg.model.head``."""
    return build(config, HEADS)


__all__ = ["HEADS", "ClsHead", "DistilledClsHead", "LeViTHead", "MAEDecoder", "MLPHead", "TokenLabelHead", "build_head"]
