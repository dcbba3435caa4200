# SPDX-License-Identifier: Apache-2.0
"""Resizing, cropping and flipping with Pillow's antialiased kernels.

Pixel for pixel what torchvision's PIL backend gives: the long side of a resize is truncated,
the offsets of a centre crop round half to even.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageOps

from passl.utils.errors import DataError
from passl.utils.registry import TRANSFORMS

from .base import Transform, check_probability, check_range, draw, draw_integer

INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def _interpolation(name: str, may_be_random: bool = False) -> str:
    known = [*INTERPOLATIONS, *(["random"] if may_be_random else [])]
    if name not in known:
        raise ValueError(f"interpolation={name!r}, expected one of {', '.join(known)}")
    return name


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    """``size`` as (height, width)."""
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or min(pair) < 1:
        raise ValueError(f"size={size!r}, expected a positive number of pixels or [height, width]")
    return int(pair[0]), int(pair[1])


def resize(image: Image.Image, size: int | Sequence[int], interpolation: str = "bilinear") -> Image.Image:
    """Resize the shorter side to ``size``, keeping the aspect ratio, or to ``size`` = (height, width) exactly."""
    width, height = image.size
    if isinstance(size, int):
        short = min(width, height)
        new_width, new_height = size * width // short, size * height // short
    else:
        new_height, new_width = size
    if (new_width, new_height) == image.size:
        return image
    return image.resize((new_width, new_height), INTERPOLATIONS[interpolation])


def center_crop(image: Image.Image, size: int | Sequence[int]) -> Image.Image:
    """Cut ``size`` out of the middle; an image that is too small is first padded with black."""
    crop_height, crop_width = _pair(size)
    width, height = image.size
    if crop_width > width or crop_height > height:
        across, down = max(crop_width - width, 0), max(crop_height - height, 0)
        image = ImageOps.expand(image, (across // 2, down // 2, (across + 1) // 2, (down + 1) // 2), fill=0)
        width, height = image.size
    top, left = round((height - crop_height) / 2), round((width - crop_width) / 2)
    return image.crop((left, top, left + crop_width, top + crop_height))


def resized_crop(
    image: Image.Image, box: tuple[int, int, int, int], size: tuple[int, int], interpolation: str = "bilinear"
) -> Image.Image:
    """Cut ``box`` = (top, left, height, width) out and resize it to ``size`` = (height, width).

    The cut comes first: ``Image.resize(box=...)`` would let pixels outside the box shine in.
    """
    top, left, height, width = box
    image = image.crop((left, top, left + width, top + height))
    return resize(image, size, interpolation)


@TRANSFORMS.register()
class Resize(Transform):
    """Resize to a fixed shorter side or to a fixed size.

    Args:
        size: shorter side in pixels (aspect ratio kept, longer side truncated), or [height, width].
        interpolation: "bilinear", "bicubic", "lanczos" or "nearest"; always antialiased.
    """

    def __init__(self, size: int | Sequence[int], interpolation: str = "bilinear"):
        self.size = size if isinstance(size, int) and size > 0 else _pair(size)
        self.interpolation = _interpolation(interpolation)

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        return resize(image, self.size, self.interpolation)


@TRANSFORMS.register()
class CenterCrop(Transform):
    """Cut a fixed size out of the middle; smaller images are padded with black.

    Args:
        size: side in pixels, or [height, width].
    """

    def __init__(self, size: int | Sequence[int]):
        self.size = _pair(size)

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        return center_crop(image, self.size)


@TRANSFORMS.register()
class RandomCrop(Transform):
    """Pad all four sides, then cut a fixed size out of a random place.

    Args:
        size: side in pixels, or [height, width].
        padding: pixels added on each side beforehand.
        fill: grey value of the padding, 0 to 255.
    """

    def __init__(self, size: int | Sequence[int], padding: int = 0, fill: int = 0):
        self.size = _pair(size)
        self.padding = padding
        self.fill = fill

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        if self.padding:
            image = ImageOps.expand(image, self.padding, fill=(self.fill,) * 3)
        (width, height), (crop_height, crop_width) = image.size, self.size
        if crop_width > width or crop_height > height:
            raise DataError(
                f"RandomCrop cuts {crop_height}x{crop_width} pixels, but the padded image has only {height}x{width}; "
                f"put a Resize before it or raise its padding (={self.padding})"
            )
        top = draw_integer(rng, height - crop_height + 1)
        left = draw_integer(rng, width - crop_width + 1)
        return image.crop((left, top, left + crop_width, top + crop_height))


@TRANSFORMS.register()
class RandomResizedCrop(Transform):
    """Cut out a random part of the image and resize it.

    Paper: Going Deeper with Convolutions, CVPR 2015, https://arxiv.org/abs/1409.4842, section 6

    The area is uniform in ``scale``, the logarithm of width/height uniform in ``ratio``.  A
    draw that does not fit is repeated, ten times at most; then the largest centred part with an
    allowed ratio is taken.

    Args:
        size: side of the result in pixels, or [height, width].
        scale: smallest and largest share of the image's area.
        ratio: smallest and largest width over height.
        interpolation: "bilinear", "bicubic", "lanczos", "nearest", or "random" for one of the first two each time.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: str = "bilinear",
    ):
        self.size = _pair(size)
        self.scale = check_range(scale, "scale", high=1.0)
        self.ratio = check_range(ratio, "ratio", low=1e-3)
        self.interpolation = _interpolation(interpolation, may_be_random=True)

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        interpolation = self.interpolation
        if interpolation == "random":
            interpolation = "bilinear" if rng.random() < 0.5 else "bicubic"
        return resized_crop(image, self.draw_box(*image.size, rng), self.size, interpolation)

    def draw_box(self, width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """A random (top, left, height, width) within an image of the given size."""
        area = width * height
        log_low, log_high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(10):
            part = area * draw(rng, *self.scale)
            ratio = math.exp(draw(rng, log_low, log_high))
            w, h = round(math.sqrt(part * ratio)), round(math.sqrt(part / ratio))
            if 0 < w <= width and 0 < h <= height:
                return draw_integer(rng, height - h + 1), draw_integer(rng, width - w + 1), h, w
        w, h = width, height
        if width / height < self.ratio[0]:
            h = round(width / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(height * self.ratio[1])
        return (height - h) // 2, (width - w) // 2, h, w


@TRANSFORMS.register()
class RandomHorizontalFlip(Transform):
    """Mirror left and right with probability ``prob``."""

    def __init__(self, prob: float = 0.5):
        self.prob = check_probability(prob, "prob")

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < self.prob else image
