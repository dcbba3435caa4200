# SPDX-License-Identifier: Apache-2.0
"""A working directory to write configs into, and a small world of components to check them against."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from paddle import nn

from passl.utils import registry, schema


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file into the working directory; returns its name."""
    monkeypatch.chdir(tmp_path)

    def put(text, name="a.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return put


class Net(nn.Layer):
    def __init__(self, img_size=32, patch_size=8, embed_dim=16, drop_rate=0.0):
        super().__init__()
        if img_size % patch_size:
            raise ValueError(f"img_size {img_size} must be divisible by patch_size {patch_size}")
        self.num_features = embed_dim
        self.proj = nn.Linear(3 * patch_size**2, embed_dim)

    def layer_id(self, name):
        return 0


class Flat(nn.Layer):
    """A backbone without layer numbers and image size."""

    num_features = 16


class Head(nn.Layer):
    def __init__(self, in_dim: int, num_classes: int, drop: float = 0.0):
        super().__init__()
        self.fc = nn.Linear(in_dim, num_classes)


class Loss(nn.Layer):
    def __init__(self, smoothing: float = 0.0, num_classes: int = 0):
        super().__init__()
        if not 0 <= smoothing < 1:
            raise ValueError(f"smoothing must be in [0, 1), got {smoothing}")


class Supervised(nn.Layer):
    def __init__(self, architecture: nn.Layer, head: nn.Layer, loss: Any = None):
        super().__init__()
        assert isinstance(architecture, nn.Layer) and isinstance(head, nn.Layer)
        self.architecture, self.head = architecture, head


class Pictures:
    """A data set that must never be opened by a check."""

    def __init__(self, root: str, split: Literal["train", "val"] = "train", transforms: Sequence[Any] = ()):
        raise AssertionError("the data set was opened")


class Crop:
    def __init__(self, size: int, scale: Sequence[float] = (0.08, 1.0)):
        if size < 1:
            raise ValueError(f"size must be positive, got {size}")


class Resize(Crop):
    pass


class Views:
    def __init__(self, transforms: Sequence[Any] = (), views: Sequence[Any] = ()):
        assert not transforms or isinstance(transforms[0], Crop)


class Mix:
    def __init__(self, num_classes: int, prob: float = 1.0):
        pass


class Descent:
    def __init__(self, parameters, learning_rate: float, weight_decay: float = 0.0):
        if not list(parameters):
            raise ValueError("no parameters")


class Other:
    def __init__(self, parameters, learning_rate: float):
        pass


class Curve:
    def __init__(
        self, base: float, total_steps: int, steps_per_epoch: int, scale: float = 1.0, warmup_epochs: float = 0.0
    ):
        if warmup_epochs < 0:
            raise ValueError(f"the warm-up cannot be negative, got {warmup_epochs}")


class Falling(Curve):
    def __init__(self, final: float = 0.0, **common):
        super().__init__(**common)


class Accuracy:
    needs_bank = False
    figures = ("top1", "top5")


class Neighbours:
    needs_bank = True

    def __init__(self, k: Sequence[int] = (20,)):
        pass


MEMBERS = {
    registry.BACKBONES: [Net, Flat],
    registry.HEADS: [Head],
    registry.LOSSES: [Loss],
    registry.METHODS: [Supervised],
    registry.DATASETS: [Pictures],
    registry.TRANSFORMS: [Crop, Resize, Views],
    registry.BATCH_TRANSFORMS: [Mix],
    registry.OPTIMIZERS: [Descent, Other],
    registry.SCHEDULES: [Falling],
    registry.EVALUATORS: [Accuracy, Neighbours],
}

GOOD = """
epochs: 5
model:
  name: Supervised
  architecture: {name: Net, img_size: 32, embed_dim: 16}
  head: {name: Head, in_dim: 16, num_classes: 10}
  loss: {name: Loss, smoothing: 0.1}
dataloader:
  train:
    batch_size: 8
    dataset: {name: Pictures, root: data, transforms: [{name: Crop, size: 32}]}
    batch_transforms: [{name: Mix, num_classes: 10}]
  val:
    batch_size: 8
    dataset: {name: Pictures, root: data, split: val, transforms: [{name: Crop, size: 32}]}
optimizer: {name: Descent, learning_rate: 1e-3, clip_norm: 1}
lr_scheduler: {name: Falling, warmup_epochs: 1}
evaluate: {evaluators: [{name: Accuracy}]}
"""


@pytest.fixture
def good(monkeypatch, write):
    """Name of a faultless config; the registries hold the components of this file alone."""
    monkeypatch.setattr(schema, "_CATALOGUES", ())
    for kind, members in MEMBERS.items():
        monkeypatch.setattr(kind, "_members", {member.__name__: member for member in members})
    return write(GOOD, "good.yaml")
