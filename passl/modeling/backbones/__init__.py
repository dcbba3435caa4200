# SPDX-License-Identifier: Apache-2.0
"""The catalogue of backbones; importing it registers them all."""

from __future__ import annotations

from typing import Any

from passl.utils.registry import BACKBONES, build

from .beit import BEiT
from .cait import CaiT
from .convnext import ConvNeXt
from .gmlp import gMLP
from .mixer import Mixer
from .regnet import RegNetY
from .resmlp import ResMLP
from .resnet import ResNet
from .swin import Swin
from .swin_v2 import SwinV2
from .vit import ViT
from .xcit import XCiT


def build_backbone(config: dict[str, Any]):
    """Build the backbone that ``config["name"]`` names, e.g. ``cfg.model.architecture``."""
    return build(config, BACKBONES)


__all__ = [
    "BACKBONES",
    "BEiT",
    "CaiT",
    "ConvNeXt",
    "Mixer",
    "RegNetY",
    "ResMLP",
    "ResNet",
    "Swin",
    "SwinV2",
    "ViT",
    "XCiT",
    "build_backbone",
    "gMLP",
]
