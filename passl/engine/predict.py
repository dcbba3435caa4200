# SPDX-License-Identifier: Apache-2.0
"""What a trained classifier sees in image files.

>>> from passl.engine.predict import find_images, predict
>>> for image in predict(model, find_images(["photos"]), card.transforms(), card.batch_transforms()):
...     print(image.path, image.classes, image.probabilities)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.data.datasets.folder import FileDataset, image_files
from passl.data.datasets.image import IMAGE_EXTENSIONS, UnreadableImage
from passl.methods import Method
from passl.utils.errors import ConfigError, DataError
from passl.utils.registry import BATCH_TRANSFORMS, TRANSFORMS, build

from .features import frozen


class Prediction(NamedTuple):
    """The most probable classes of one image.

    Args:
        path: of the image.
        classes: numbers of the classes, the most probable one first.
        probabilities: of these classes, in [0, 1].
        error: why the image could not be read; then there are no classes.
    """

    path: str
    classes: list[int]
    probabilities: list[float]
    error: str | None = None


def predict(
    model: nn.Layer,
    paths: Sequence[str],
    transforms: Sequence[Mapping[str, Any]],
    batch_transforms: Sequence[Mapping[str, Any]],
    topk: int = 5,
    batch_size: int = 32,
) -> Iterator[Prediction]:
    """Classify image files, batch by batch, in their order; the model is left as it was.

    Args:
        model: a method with ``predict(images)``, or a layer called with images; gives logits [B, K] in evaluation
            mode, or a mapping that has them as ``"logits"``.
        paths: of the images; see :func:`find_images`.
        transforms, batch_transforms: as a config writes them, e.g. ``card.transforms()``.
        topk: classes for each image, at least 1; where the model has fewer, all of them.
        batch_size: images in a batch, at least 1.
    Raises:
        ConfigError: a setting without meaning, or a model without classes.
        DataError: while iterating, images that differ in size after the transforms, or logits that are not finite.
    """
    for name, value in {"topk": topk, "batch_size": batch_size}.items():
        if value < 1:
            raise ConfigError(f"{name} is {value}, expected at least 1", source="predict")
    host = [build(section, TRANSFORMS) for section in transforms]
    if any(transform.gives_views for transform in host):
        raise ConfigError(f"the transforms {host} give several views of an image; one is needed", source="predict")
    device = [build(section, BATCH_TRANSFORMS) for section in batch_transforms]
    forward = classifier_of(model)
    return _predictions(model, forward, FileDataset("", paths, None, (), host), device, topk, batch_size)


def _predictions(
    model: nn.Layer, forward: Callable, dataset: FileDataset, device: Sequence[Callable], topk: int, batch_size: int
) -> Iterator[Prediction]:
    for begin in range(0, len(dataset), batch_size):
        paths = [dataset.path(i) for i in range(begin, min(begin + batch_size, len(dataset)))]
        images, errors = {}, {}
        for i, path in enumerate(paths, begin):
            try:
                images[path] = dataset[i]["image"]
            except UnreadableImage as error:
                errors[path] = error.reason
        found = _classify(model, forward, images, device, topk) if images else {}
        for path in paths:
            yield found[path] if path in found else Prediction(path, [], [], errors[path])


def _classify(
    model: nn.Layer, forward: Callable, images: Mapping[str, np.ndarray], device: Sequence[Callable], topk: int
) -> dict[str, Prediction]:
    """The predictions for one batch of uint8 images [3, H, W], by path."""
    sizes = {image.shape[1:]: path for path, image in images.items()}
    if len(sizes) > 1:
        shown = ", ".join(f"{path} has {height}x{width}" for (height, width), path in sizes.items())
        raise DataError(f"images differ in size after the transforms: {shown}; end the transforms with a CenterCrop")
    batch: dict[str, Any] = {"image": paddle.to_tensor(np.stack(list(images.values())))}
    with frozen(model):
        for transform in device:
            batch = transform(batch)
        logits = forward(batch["image"]).astype("float32")  # [B, K]
        probabilities = F.softmax(logits, axis=-1).numpy()
    finite = np.isfinite(probabilities).all(axis=1)
    if not finite.all():
        raise DataError(f"the logits of {list(images)[finite.argmin()]} are not finite: the weights have diverged")
    order = np.argsort(-logits.numpy(), axis=1, kind="stable")[:, :topk]
    rows = zip(images, order, np.take_along_axis(probabilities, order, axis=1))
    return {path: Prediction(path, classes.tolist(), values.tolist()) for path, classes, values in rows}


def classifier_of(model: nn.Layer) -> Callable[[paddle.Tensor], paddle.Tensor]:
    """The function from images to logits [B, K].  Raises ConfigError for a model that has no classes."""
    head = getattr(model, "head", None)
    if (isinstance(model, Method) and not hasattr(model, "predict")) or getattr(head, "num_classes", None) == 0:
        raise ConfigError(
            f"{type(model).__name__} has no classes to predict; train a Classifier first", source="predict"
        )
    call = getattr(model, "predict", model)

    def logits(images: paddle.Tensor) -> paddle.Tensor:
        outputs = call(images)
        if isinstance(outputs, Mapping):
            if "logits" not in outputs:
                raise ConfigError(f"the model gives {', '.join(outputs)}, but no 'logits'", source="predict")
            outputs = outputs["logits"]
        if not isinstance(outputs, paddle.Tensor):
            raise ConfigError(f"the model gives a {type(outputs).__name__}, expected logits [B, K]", source="predict")
        if outputs.ndim != 2:
            shape = list(outputs.shape)
            raise ConfigError(f"the model gives the shape {shape}, expected logits [B, K]", source="predict")
        return outputs

    return logits


def find_images(paths: Sequence[str]) -> list[str]:
    """Files as they are given, and for a folder all images anywhere below it, sorted.

    Raises:
        DataError: a folder without images.
    """
    files: list[str] = []
    for path in map(str, paths):
        below = [os.path.join(path, name) for name in image_files(path, IMAGE_EXTENSIONS)]
        if os.path.isdir(path) and not below:
            raise DataError(f"no images below {path}; expected files that end in {' '.join(IMAGE_EXTENSIONS)}")
        files += below or [path]
    return files


def class_names(num_classes: int, labels: str | None = None, recorded: Sequence[str] | None = None) -> list[str]:
    """The name of each class.

    Args:
        num_classes: of the model.
        labels: a text file with one name a line, in label order; rules over ``recorded``.
        recorded: names of the classes in training; the model may have more outputs, which keep their numbers.
    Raises:
        DataError: a file that cannot be read, or another number of names.
    """
    if labels is None:
        names = list(recorded or ())
        return [*names, *map(str, range(len(names), num_classes))][:num_classes]
    try:
        names = [line.strip() for line in Path(labels).read_text(encoding="utf-8-sig").rstrip().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the labels {labels} ({error}); expected a text file, one name a line") from error
    if len(names) != num_classes:
        raise DataError(
            f"the labels {labels} have {len(names)} lines, but the model has {num_classes} classes; "
            "give one name a line, in label order"
        )
    return names
