# SPDX-License-Identifier: Apache-2.0
"""A model of 32 pixels with config, weights, card and images, and what it must give, computed without passl.data."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
from PIL import Image

from passl.catalogue import model_configs
from passl.methods import build_method
from passl.utils.config import get_config
from passl.utils.seed import INIT, seed_everything
from passl.weights import Card, save_weights

ROOT = Path(__file__).parents[2]
CLASSES = ("ant", "bee", "cat")
CONFIG = """
model:
  name: Classifier
  architecture: {name: ViT, img_size: 32, patch_size: 16, embed_dim: 16, depth: 1, num_heads: 2}
  head: {name: ClsHead, in_dim: 16, num_classes: 3}
dataloader:
  train:
    batch_size: 4
    dataset: {name: ImageFolder, root: images, transforms: [{name: RandomResizedCrop, size: 32}]}
  val:
    batch_size: 4
    dataset: {name: ImageFolder, root: images, transforms: [{name: Resize, size: 36}, {name: CenterCrop, size: 32}]}
    batch_transforms: [{name: Normalize, mean: imagenet}]
  bank:
    batch_size: 4
    dataset: {name: ImageFolder, root: images, transforms: [{name: Resize, size: 36}, {name: CenterCrop, size: 32}]}
    batch_transforms: [{name: Normalize, mean: imagenet}]
evaluate: {evaluators: [{name: TopK}]}
"""
IMAGENET = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
KERNELS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def make_card(**fields) -> Card:
    """A card of the tiny model; by default it says what the config says, but with normalisation by 0.5."""
    standard = {
        **{"name": "tiny.test_in1k", "model": "tiny", "img_size": 32, "crop_fraction": 32 / 36, "num_classes": 3},
        **{"interpolation": "bilinear", "mean": (0.5,) * 3, "std": (0.5,) * 3, "norm_eps": 1e-6, "top1": 50.0},
    }
    return Card(**{**standard, **fields})


class Tiny:
    """The files in ``folder``, and the tools run on them."""

    def __init__(self, folder: Path, monkeypatch, capsys):
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        self.config, self.weights = folder / "tiny.yaml", folder / "tiny.safetensors"
        self.config.write_text(CONFIG.replace("root: images", f"root: {folder}/images"))
        rng = np.random.default_rng(0)
        for label, name in enumerate(CLASSES):
            (folder / "images" / name).mkdir(parents=True)
            for i in range(2):
                pixels = rng.integers(0, 200, [52, 44, 3], np.uint8)
                pixels[10 * label : 10 * label + 20] += 40
                Image.fromarray(pixels).save(folder / "images" / name / f"{i}.png")
        self.images = sorted((folder / "images").rglob("*.png"))

    def method(self, **architecture):
        """The config's model, always with the same weights, which make its answers differ from image to image."""
        seed_everything(3, INIT)
        model = get_config(self.config).model
        model.architecture.update(architecture)
        method = build_method(model)
        method.head.fc.weight.set_value(method.head.fc.weight * 40)
        method.eval()
        return method

    def save(self, card: Card | None, **architecture) -> None:
        """Write the weights with their card."""
        save_weights(self.method(**architecture), self.weights, card)

    def in_catalogue(self, name: str = "tiny") -> None:
        """Make the config a model of the catalogue."""
        known = {**model_configs(), name: self.config}
        self.monkeypatch.setattr("passl.catalogue.model_configs", lambda: known)

    def run(self, tool: str, *arguments) -> tuple[int, str, str]:
        """The exit code, standard output and standard error of a tool, run in this process."""
        self.monkeypatch.setattr(sys, "argv", [tool, *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(ROOT / "tools" / f"{tool}.py"), run_name="__main__")
        output, error = self.capsys.readouterr()
        assert "Traceback" not in error
        return stopped.value.code, output, error


def pixels(path, resize, crop=32, interpolation="bilinear", squash=False) -> np.ndarray:
    """The uint8 image [3, crop, crop] that an evaluation with these settings looks at."""
    image = Image.open(path)
    width, height = image.size
    short = min(width, height)
    size = (resize, resize) if squash else (resize * width // short, resize * height // short)
    image = image.resize(size, KERNELS[interpolation])
    left, top = round((image.width - crop) / 2), round((image.height - crop) / 2)
    return np.asarray(image.crop((left, top, left + crop, top + crop))).transpose(2, 0, 1)


def probabilities(method, images, mean, std) -> np.ndarray:
    """What the method gives for uint8 images, [N, K]."""
    mean, std = (np.reshape(numbers, [3, 1, 1]) for numbers in (mean, std))
    batch = (np.stack(images) / 255.0 - mean) / std
    logits = method.predict(paddle.to_tensor(batch.astype("float32"))).numpy().astype("float64")
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)
