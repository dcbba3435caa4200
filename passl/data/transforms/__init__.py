# SPDX-License-Identifier: Apache-2.0
"""Host transforms: ``transform(image, rng) -> image`` on 8-bit PIL images, exact to torchvision's PIL backend.

All randomness comes from the ``rng`` that is handed in, so that a sample depends on what is
drawn and not on the process that draws it.
"""

from .base import Transform, apply, check_pipeline
from .color import (
    ColorJitter,
    GaussianBlur,
    RandomGrayscale,
    Solarize,
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    gaussian_blur,
    grayscale,
    solarize,
)
from .geometry import (
    CenterCrop,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    center_crop,
    resize,
    resized_crop,
)
from .views import MultiCrop, Views

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "GaussianBlur",
    "MultiCrop",
    "RandomCrop",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "Solarize",
    "Transform",
    "Views",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "apply",
    "center_crop",
    "check_pipeline",
    "gaussian_blur",
    "grayscale",
    "resize",
    "resized_crop",
    "solarize",
]
