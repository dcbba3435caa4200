# SPDX-License-Identifier: Apache-2.0
"""What augmentation makes of some images: look at it before training on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from passl.utils.seed import SAMPLE, generator

from .style import figure


def augmentation_sheet(
    dataset, path: str | os.PathLike[str], indices: Sequence[int] = tuple(range(6)), draws: int = 4, seed: int = 0
) -> Path:
    """Draw a row for each image: the original, then what ``draws`` epochs of training would see.

    Args:
        dataset: an ``ImageDataset`` with its transforms.
        path: of the PNG.
        indices: the images.
        draws: how often each image is drawn; with views, each draw shows all of them.
        seed: of the draws.
    Returns:
        the path.
    """
    rows = [_draws(dataset, index, draws, seed) for index in indices]
    originals = [dataset.load(index)[0] for index in indices]
    views = len(rows[0][0])
    columns = 1 + draws * views
    with figure(path, 1.35 * columns, 1.35 * len(rows) + 0.7) as canvas:
        axes = canvas.subplots(len(rows), columns, squeeze=False)
        for line, original, row in zip(axes, originals, rows):
            pictures = [original, *(view for draw in row for view in draw)]
            for axis, picture in zip(line, pictures):
                axis.imshow(picture, interpolation="nearest")
                axis.grid(False)
                axis.set(xticks=[], yticks=[])
                axis.spines[:].set_visible(False)
        axes[0, 0].set_title("original", fontsize=9, loc="center")
        for column in range(1, columns):
            draw, view = divmod(column - 1, views)
            name = f"draw {draw + 1}" + (f", view {view + 1}" if views > 1 else "")
            size = " x ".join(map(str, rows[0][draw][view].shape[1::-1]))
            axes[0, column].set_title(f"{name}\n{size}", fontsize=8, fontweight="normal", loc="center")
    return Path(path)


def _draws(dataset, index: int, draws: int, seed: int) -> list[list[np.ndarray]]:
    """For each draw the list of its views, uint8 [H, W, 3]."""
    samples = [dataset.sample(index, generator(seed, SAMPLE, draw, index)) for draw in range(draws)]
    views = [sample["views"] if "views" in sample else [sample["image"]] for sample in samples]
    return [[view.transpose(1, 2, 0) for view in draw] for draw in views]
