# SPDX-License-Identifier: Apache-2.0
"""Rules that join several keys of a config.  Each yields its faults, with both values and the way out.

A rule sees configs that may be wrong in other ways too, and says nothing where it cannot know.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from .annotations import arguments
from .errors import did_you_mean
from .registry import BACKBONES, TRANSFORMS, Registry

Size = tuple[int, int]


class Checked(NamedTuple):
    """What the rules look at: the config with defaults, what was built of it by key path, and faults found so far."""

    config: dict[str, Any]
    built: dict[str, Any]
    faults: list[str]
    training: bool

    def get(self, path: str) -> Any:
        """The value at a key path, or None where the config does not go that far."""
        node: Any = self.config
        for key in path.split("."):
            node = node.get(key) if isinstance(node, Mapping) else None
        return node

    def of_architecture(self, argument: str) -> Any:
        """An argument of the backbone, as given or by default."""
        config = self.get("model.architecture")
        if not _names_a(BACKBONES, config):
            return None
        known, _ = arguments(BACKBONES.get(config["name"]))
        return config.get(argument, known[argument].default if argument in known else None)


def needed_for_training(checked: Checked) -> Iterator[str]:
    for path in ("epochs", "dataloader.train", "optimizer", "lr_scheduler"):
        if checked.training and checked.get(path) is None:
            yield f"{path}: missing; training needs it"


def widths(checked: Checked) -> Iterator[str]:
    """A head takes as many features as the backbone gives."""
    backbone = checked.built.get("model.architecture")
    features = checked.of_architecture("embed_dim") if backbone is None else getattr(backbone, "num_features", None)
    for head in ("head", "projector", "decoder"):
        in_dim = checked.get(f"model.{head}.in_dim")
        if isinstance(features, int) and isinstance(in_dim, int) and in_dim != features:
            yield (
                f"model.{head}.in_dim: is {in_dim}, but model.architecture ({checked.get('model.architecture.name')}) "
                f"gives {features} features; set model.{head}.in_dim to {features}"
            )


def patches(checked: Checked) -> Iterator[str]:
    """Patches tile the image; the constructor says so too, unless another fault kept it from being called."""
    image, patch = _pair(checked.of_architecture("img_size")), _pair(checked.of_architecture("patch_size"))
    refused = any(fault.startswith("model.architecture: ") for fault in checked.faults)
    if image and patch and all(patch) and (image[0] % patch[0] or image[1] % patch[1]) and not refused:
        yield (
            f"model.architecture.img_size: {_text(image)} is not divisible by "
            f"model.architecture.patch_size {_text(patch)}; change one of them"
        )


def image_sizes(checked: Checked) -> Iterator[str]:
    """Transforms produce the size that the backbone was built for; with several sizes of views, one of them does."""
    expected = _pair(checked.of_architecture("img_size"))
    for split in ("train", "val", "bank"):
        path = f"dataloader.{split}.dataset.transforms"
        sizes = list(_sizes(checked, checked.get(path), path))
        if expected and sizes and None not in sizes and expected not in sizes:
            given, wanted = _text(sizes[0]), _text(expected)
            yield (
                f"{path}: give images of {given} pixels, but model.architecture.img_size is {wanted}; "
                f"crop to {wanted} or set model.architecture.img_size to {given}"
            )


def _sizes(checked: Checked, transforms: Any, path: str) -> Iterator[Size | None]:
    """Image sizes after a list of transforms, one for each view; None is unknown."""
    size: Size | None = None
    for transform in transforms if isinstance(transforms, list) else ():
        if not _names_a(TRANSFORMS, transform):
            continue
        if "views" in transform or "transforms" in transform:
            views = transform.get("views") or [transform.get("transforms")]
            for view in views if isinstance(views, list) else ():
                yield from _sizes(checked, view, path)
            return
        if "size" in transform and "size" in arguments(TRANSFORMS.get(transform["name"]))[0]:
            shorter_side = transform["name"] == "Resize" and isinstance(transform["size"], int)
            size = None if shorter_side else _pair(transform["size"])
    yield size


def class_counts(checked: Checked) -> Iterator[str]:
    """Loss and mixing transforms know as many classes as the head."""
    classes = checked.get("model.head.num_classes")
    others = {"model.loss": checked.get("model.loss")}
    for split in ("train", "val", "bank"):
        path = f"dataloader.{split}.batch_transforms"
        transforms = checked.get(path)
        others.update({f"{path}.{i}": t for i, t in enumerate(transforms if isinstance(transforms, list) else ())})
    for path, config in others.items():
        count = config.get("num_classes") if isinstance(config, Mapping) else None
        if isinstance(classes, int) and isinstance(count, int) and count != classes:
            yield f"{path}.num_classes: is {count}, but model.head.num_classes is {classes}; make them equal"


def evaluation(checked: Checked) -> Iterator[str]:
    """Evaluators find the images they need, and the best checkpoint a figure."""
    evaluators = checked.get("evaluate.evaluators")
    if not isinstance(evaluators, list):
        return
    if evaluators and checked.get("dataloader.val") is None:
        yield "evaluate.evaluators: need the section dataloader.val, which is missing; add it or leave them out"
    for i, config in enumerate(evaluators):
        needs_bank = getattr(checked.built.get(f"evaluate.evaluators.{i}"), "needs_bank", False)
        if needs_bank and checked.get("dataloader.bank") is None:
            yield (
                f"evaluate.evaluators.{i}: {config['name']} learns from the section dataloader.bank, which is missing; "
                "add it: training images with the transforms of dataloader.val"
            )
    metric = checked.get("checkpoint.metric")
    if isinstance(metric, str) and not evaluators:
        yield f"checkpoint.metric: is '{metric}', but evaluate.evaluators is empty; add one that measures it"
    built = [checked.built.get(f"evaluate.evaluators.{i}") for i in range(len(evaluators))]
    figures = [figure for evaluator in built for figure in getattr(evaluator, "figures", ())]
    if isinstance(metric, str) and all(hasattr(e, "figures") for e in built) and figures and metric not in figures:
        hint = did_you_mean(metric, figures) or f"; they give {', '.join(figures)}"
        yield f"checkpoint.metric: is '{metric}', which no evaluator gives{hint}"


def parameters(checked: Checked) -> Iterator[str]:
    """Layer-wise decay has layers, and what is to be frozen exists."""
    backbone, method = checked.built.get("model.architecture"), checked.built.get("model")
    decay, patterns = checked.get("optimizer.layer_decay"), checked.get("optimizer.freeze")
    if decay is not None and backbone is not None and not hasattr(backbone, "layer_id"):
        name = checked.get("model.architecture.name")
        yield f"optimizer.layer_decay: is {decay}, but {name} does not number its layers (layer_id); remove it"
    names = [name for name, _ in method.named_parameters()] if method is not None else []
    for i, pattern in enumerate(patterns if names and isinstance(patterns, list) else ()):
        if not any(fnmatchcase(name, str(pattern)) for name in names):
            yield f"optimizer.freeze.{i}: '{pattern}' matches no parameter; they have names such as '{names[0]}'"


def rates(checked: Checked) -> Iterator[str]:
    """Steps go downhill and decay shrinks; the optimizers' signatures have types, but no ranges."""
    for path in ("optimizer.learning_rate", "optimizer.weight_decay"):
        value = checked.get(path)
        if isinstance(value, (int, float)) and not 0 <= value < math.inf:
            yield f"{path}: is {value}; expected a finite number, 0 or more"


def _names_a(registry: Registry, config: Any) -> bool:
    name = config.get("name") if isinstance(config, Mapping) else None
    return isinstance(name, str) and name in registry


def _pair(value: Any) -> Size | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value, value
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(v, int) for v in value):
        return value[0], value[1]
    return None


def _text(size: Size | None) -> str:
    return "?" if size is None else f"{size[0]}x{size[1]}"


RULES = (needed_for_training, widths, patches, image_sizes, class_counts, evaluation, parameters, rates)
