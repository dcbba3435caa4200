# SPDX-License-Identifier: Apache-2.0
"""Colour and blur, pixel for pixel what Pillow's own enhancers and filters give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from passl.utils.registry import TRANSFORMS

from .base import Transform, check_probability, check_range, draw


def adjust_brightness(image: Image.Image, factor: float) -> Image.Image:
    """Blend with black: 0 is black, 1 the image itself."""
    return Image.blend(Image.new("RGB", image.size), image, factor)


def adjust_contrast(image: Image.Image, factor: float) -> Image.Image:
    """Blend with the image's mean grey: 0 is uniform grey, 1 the image itself."""
    luma = np.frombuffer(image.convert("L").tobytes(), np.uint8)
    grey = int(int(luma.sum()) / luma.size + 0.5)
    return Image.blend(Image.new("RGB", image.size, (grey, grey, grey)), image, factor)


def adjust_saturation(image: Image.Image, factor: float) -> Image.Image:
    """Blend with the grey image: 0 has no colour, 1 is the image itself."""
    return Image.blend(grayscale(image), image, factor)


def adjust_hue(image: Image.Image, shift: float) -> Image.Image:
    """Turn the hue by ``shift`` in [-0.5, 0.5] of a full circle, in 8-bit HSV."""
    hue, saturation, value = image.convert("HSV").split()
    hue = Image.fromarray(np.asarray(hue) + np.uint8(int(shift * 255) % 256))  # wraps around, as a circle does
    return Image.merge("HSV", (hue, saturation, value)).convert("RGB")


def grayscale(image: Image.Image) -> Image.Image:
    """The luma (299 R + 587 G + 114 B) / 1000 in all three channels."""
    return image.convert("L").convert("RGB")


def gaussian_blur(image: Image.Image, sigma: float) -> Image.Image:
    """Pillow's Gaussian blur: three passes of a box blur that approximate a standard deviation of ``sigma``."""
    return image.filter(ImageFilter.GaussianBlur(sigma))


def solarize(image: Image.Image, threshold: int = 128) -> Image.Image:
    """Invert every value from ``threshold`` on."""
    pixels = np.asarray(image)
    return Image.fromarray(np.where(pixels < threshold, pixels, 255 - pixels))


@TRANSFORMS.register()
class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random amounts in random order.

    Args:
        brightness: factor drawn from [max(0, 1 - b), 1 + b], or an explicit [smallest, largest].
        contrast: like ``brightness``.
        saturation: like ``brightness``.
        hue: shift drawn from [-h, h] with h <= 0.5, or an explicit [smallest, largest].
        prob: probability that anything is done at all.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0.0,
        contrast: float | Sequence[float] = 0.0,
        saturation: float | Sequence[float] = 0.0,
        hue: float | Sequence[float] = 0.0,
        prob: float = 1.0,
    ):
        self.brightness = _around(brightness, "brightness", 1.0, 0.0, float("inf"))
        self.contrast = _around(contrast, "contrast", 1.0, 0.0, float("inf"))
        self.saturation = _around(saturation, "saturation", 1.0, 0.0, float("inf"))
        self.hue = _around(hue, "hue", 0.0, -0.5, 0.5)
        self.prob = check_probability(prob, "prob")
        ranges = (
            (adjust_brightness, self.brightness, 1.0),
            (adjust_contrast, self.contrast, 1.0),
            (adjust_saturation, self.saturation, 1.0),
            (adjust_hue, self.hue, 0.0),
        )
        self._steps = [(adjust, limits) for adjust, limits, neutral in ranges if limits != (neutral, neutral)]

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        if rng.random() >= self.prob:
            return image
        for number in rng.permutation(len(self._steps)):
            adjust, limits = self._steps[number]
            image = adjust(image, draw(rng, *limits))
        return image


def _around(value: Any, name: str, neutral: float, low: float, high: float) -> tuple[float, float]:
    """``value`` as limits: a pair as it is, a number as ``neutral`` plus and minus it."""
    if not isinstance(value, Sequence):
        if value < 0 or neutral + value > high:
            raise ValueError(f"{name}={value}, expected a number from 0 to {high - neutral} or [smallest, largest]")
        value = (max(low, neutral - value), neutral + value)
    return check_range(value, name, low, high)


@TRANSFORMS.register()
class RandomGrayscale(Transform):
    """Take the colour away with probability ``prob``; the image keeps three channels."""

    def __init__(self, prob: float = 0.1):
        self.prob = check_probability(prob, "prob")

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        return grayscale(image) if rng.random() < self.prob else image


@TRANSFORMS.register()
class GaussianBlur(Transform):
    """Blur with a random standard deviation.

    Paper: A Simple Framework for Contrastive Learning of Visual Representations, ICML 2020,
    https://arxiv.org/abs/2002.05709, appendix A, with Pillow's filter as in MoCo v2, BYOL and DINO in PyTorch

    Args:
        sigma: smallest and largest standard deviation in pixels.
        prob: probability of blurring.
    """

    def __init__(self, sigma: Sequence[float] = (0.1, 2.0), prob: float = 0.5):
        self.sigma = check_range(sigma, "sigma")
        self.prob = check_probability(prob, "prob")

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        return gaussian_blur(image, draw(rng, *self.sigma)) if rng.random() < self.prob else image


@TRANSFORMS.register()
class Solarize(Transform):
    """Invert values from a threshold on.

    Paper: Bootstrap Your Own Latent, NeurIPS 2020, https://arxiv.org/abs/2006.07733, appendix B

    Args:
        threshold: smallest value that is inverted, 0 to 256.
        prob: probability of solarizing.
    """

    def __init__(self, threshold: int = 128, prob: float = 0.2):
        self.threshold = threshold
        self.prob = check_probability(prob, "prob")

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Image.Image:
        return solarize(image, self.threshold) if rng.random() < self.prob else image
