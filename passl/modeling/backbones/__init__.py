# SPDX-License-Identifier: Apache-2.0
"""The catalogue of backbones; importing it registers them all."""

from __future__ import annotations

from typing import Any

from passl.utils.registry import BACKBONES, build

from .beit import BEiT
from .cait import CaiT
from .clip_resnet import CLIPResNet
from .convmae import ConvViT
from .convnext import ConvNeXt
from .cvt import CvT
from .efficientnet import EfficientNet
from .gmlp import gMLP
from .levit import LeViT
from .lv_vit import LVViT
from .mixer import Mixer
from .pvt import PVT
from .pvt_v2 import PVTv2
from .regnet import RegNetY
from .resmlp import ResMLP
from .resnet import ResNet
from .strided_cnn import StridedCNN
from .swin import Swin
from .swin_v2 import SwinV2
from .t2t_vit import T2TViT
from .vit import ViT
from .xcit import XCiT


def build_backbone(config: dict[str, Any]):
    """Build the backbone that ``config["name"]`` names, e.g. ``cfg.model.architecture``."""
    return build(config, BACKBONES)


__all__ = [
    "BACKBONES",
    "PVT",
    "BEiT",
    "CLIPResNet",
    "CaiT",
    "ConvNeXt",
    "ConvViT",
    "CvT",
    "EfficientNet",
    "LVViT",
    "LeViT",
    "Mixer",
    "PVTv2",
    "RegNetY",
    "ResMLP",
    "ResNet",
    "StridedCNN",
    "Swin",
    "SwinV2",
    "T2TViT",
    "ViT",
    "XCiT",
    "build_backbone",
    "gMLP",
]
