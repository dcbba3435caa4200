# SPDX-License-Identifier: Apache-2.0
"""What must be known about a weight file before its published number can be reproduced.

Normalisation constants, crop, resize rule and the epsilon of the norms differ between weights of
one and the same network, and a wrong one costs up to 1.5 points without any error.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passl.utils.errors import CheckpointError, did_you_mean

from .safetensors import read_metadata
from .save import atomic_file

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INCEPTION = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Card:
    """How the weights of one file want their images, and what accuracy they then reach.

    Args:
        name: of the weights, e.g. ``deit_small_patch16_224.fb_in1k``.
        model: the model they belong to, as ``passl.create_model`` calls it.
        img_size: side of the crop in pixels.
        crop_fraction: ``img_size`` over the side that images are resized to.
        crop_mode: ``"center"`` resizes the shorter side and crops; ``"squash"`` resizes to a square.
        interpolation: of the resizing.
        mean, std: per channel, for pixels in [0, 1].
        norm_eps: epsilon of the model's norms.
        num_classes: outputs of the classifier.
        top1: published ImageNet-1k accuracy in %, under exactly these settings.
        official: the authors' own figure and settings where they differ: ``{"top1": ..., "crop_fraction": ...}``.
        source: where weights and figure come from.
        sha256: of the file the weights were taken from.
    """

    name: str
    model: str
    img_size: int = 224
    crop_fraction: float = 0.875
    crop_mode: str = "center"
    interpolation: str = "bicubic"
    mean: tuple[float, ...] = IMAGENET[0]
    std: tuple[float, ...] = IMAGENET[1]
    norm_eps: float = 1e-6
    num_classes: int = 1000
    top1: float | None = None
    official: dict[str, float] | None = None
    source: str = ""
    sha256: str | None = None

    def __post_init__(self):
        if not 0 < self.crop_fraction <= 1:
            raise ValueError(f"crop_fraction must be in (0, 1], got {self.crop_fraction}")
        if self.crop_mode not in ("center", "squash"):
            raise ValueError(f"crop_mode must be 'center' or 'squash', got {self.crop_mode!r}")
        for name in ("mean", "std"):  # JSON has no tuples
            object.__setattr__(self, name, tuple(map(float, getattr(self, name))))

    @property
    def resize_size(self) -> int:
        """Side in pixels that images are resized to before the crop."""
        return math.floor(self.img_size / self.crop_fraction)

    def transforms(self) -> list[dict[str, Any]]:
        """The evaluation transforms, as a config writes them."""
        size = [self.resize_size, self.resize_size] if self.crop_mode == "squash" else self.resize_size
        return [
            {"name": "Resize", "size": size, "interpolation": self.interpolation},
            {"name": "CenterCrop", "size": self.img_size},
        ]

    def batch_transforms(self) -> list[dict[str, Any]]:
        """The normalisation, as a config writes it."""
        return [{"name": "Normalize", "mean": list(self.mean), "std": list(self.std)}]

    def to_json(self) -> str:
        """All fields; :meth:`from_json` reads them back."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "card") -> Card:
        """The card in ``text``.  Raises CheckpointError on anything but an object of known fields, none missing."""
        try:
            fields = json.loads(text)
            if not isinstance(fields, dict):
                raise TypeError(f"expected an object of fields, got {type(fields).__name__}")
            known = [field.name for field in dataclasses.fields(cls)]
            for key in fields:
                if key not in known:
                    raise CheckpointError(f"{source}: a card has no field '{key}'{did_you_mean(key, known)}")
            return cls(**fields)
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{source} is not a valid card: {error}") from error


def card_path(weights: str | Path) -> Path:
    """The card's place beside a weight file: the same name with ``.json``."""
    return Path(weights).with_suffix(".json")


def save_card(card: Card, weights: str | Path) -> Path:
    """Write ``card`` beside the weight file, all or nothing; returns its path."""
    path = card_path(weights)
    with atomic_file(path) as stream:
        stream.write(card.to_json().encode())
    return path


def read_card(weights: str | Path) -> Card | None:
    """The card of a weight file: the JSON beside it, or the one in a safetensors header; None without."""
    path = card_path(weights)
    if path.is_file():
        return Card.from_json(path.read_bytes(), str(path))
    if Path(weights).suffix == ".safetensors":
        text = read_metadata(weights).get("card")
        return Card.from_json(text, str(weights)) if text else None
    return None
