# SPDX-License-Identifier: Apache-2.0
"""Reading one image file."""

from __future__ import annotations

import os
import struct
import zlib

from PIL import Image

from passl.utils.errors import DataError

IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff")

# What Pillow's decoders raise on files that are cut off, damaged, foreign or suspiciously large.
_DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    IndexError,
    EOFError,
    OverflowError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)


class UnreadableImage(DataError):
    """One image file is missing, truncated or no image."""

    def __init__(self, path: str, reason: str):
        self.path = path
        self.reason = reason
        super().__init__(f"cannot read the image {path}: {reason}")

    def __reduce__(self):
        return UnreadableImage, (self.path, self.reason)


def read_image(path: str) -> Image.Image:
    """Decode an image file to 8-bit RGB; an orientation tag is not applied, as in torchvision.

    Raises:
        UnreadableImage: names the path and what is wrong with it.
    """
    try:
        with Image.open(path) as image:
            image.load()
            return to_rgb(image)
    except _DECODE_ERRORS as error:
        raise UnreadableImage(path, explain(path, error)) from error


def explain(path: str, error: Exception) -> str:
    """Why ``path`` could not be decoded, in words."""
    if not os.path.exists(path):
        return "the file does not exist"
    if os.path.getsize(path) == 0:
        return "the file is empty"
    if isinstance(error, Image.UnidentifiedImageError):
        return "the file is no image, or of a format that Pillow does not know"
    return str(error) or type(error).__name__


def to_rgb(image: Image.Image) -> Image.Image:
    """Any Pillow image as 8-bit RGB; an alpha channel is dropped.

    16-bit grey is divided by 256; torchvision clips it at 255, which turns most such images white.
    """
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I;16"):
        return image.point(lambda value: value * (1 / 256), "L").convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # straight to RGB makes Pillow warn once per image
    return image.convert("RGB")
