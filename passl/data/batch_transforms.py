# SPDX-License-Identifier: Apache-2.0
"""Transforms of a whole batch on the device: ``transform(batch) -> batch``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import paddle

from passl.utils.registry import BATCH_TRANSFORMS

# Mean and standard deviation of the pixel values in [0, 1], red green blue.
STATISTICS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "inception": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
}


@BATCH_TRANSFORMS.register()
class Normalize:
    """(pixel / 255 - mean) / std, from uint8 to float32, for ``image`` and each of ``views``.

    Args:
        mean: three numbers on the 0..1 scale, or "imagenet", "inception" or "clip".
        std: three numbers on the 0..1 scale or a name; by default that of ``mean``'s name.
    Shape: [B, 3, H, W] -> [B, 3, H, W].
    """

    def __init__(self, mean: str | Sequence[float] = "imagenet", std: str | Sequence[float] | None = None):
        if std is None:
            if not isinstance(mean, str):
                raise ValueError("Normalize has a mean but no std; give both, or one of their names as mean")
            std = mean
        self.mean = _statistic("mean", mean, 0)
        self.std = _statistic("std", std, 1)
        self._factor: paddle.Tensor | None = None
        self._offset: paddle.Tensor | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch = dict(batch)
        if "image" in batch:
            batch["image"] = self.normalize(batch["image"])
        if "views" in batch:
            batch["views"] = [self.normalize(view) for view in batch["views"]]
        return batch

    def normalize(self, images: paddle.Tensor) -> paddle.Tensor:
        """uint8 images [B, 3, H, W] as float32."""
        if self._factor is None or self._offset is None:
            factor = [1 / (255 * s) for s in self.std]
            offset = [-m / s for m, s in zip(self.mean, self.std)]
            self._factor = paddle.to_tensor(factor, dtype="float32").reshape([3, 1])
            self._offset = paddle.to_tensor(offset, dtype="float32").reshape([3, 1])
        batch, channels, height, width = images.shape
        # One row per channel plane: Paddle's CPU kernels broadcast [1, 3, 1, 1] six times slower than [3 B, 1].
        planes = images.astype("float32").reshape([batch * channels, height * width])  # [3 B, H W]
        planes = planes * self._factor.tile([batch, 1]) + self._offset.tile([batch, 1])
        return planes.reshape([batch, channels, height, width])

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


def _statistic(key: str, value: str | Sequence[float], which: int) -> list[float]:
    """``value`` as three numbers, looked up where it is a name."""
    if isinstance(value, str):
        if value not in STATISTICS:
            raise ValueError(f"{key}='{value}' is not known, expected one of {', '.join(STATISTICS)} or three numbers")
        return list(STATISTICS[value][which])
    if len(value) != 3 or not all(0 <= v <= 1 for v in value) or (key == "std" and not all(value)):
        raise ValueError(
            f"{key}={list(value)}, expected three numbers on the 0..1 scale, red green blue; "
            f"divide numbers on the 0..255 scale by 255"
        )
    return [float(v) for v in value]
