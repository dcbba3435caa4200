# SPDX-License-Identifier: Apache-2.0
"""Pixels equal to those of torchvision's and timm's PIL pipelines."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import paddle
import PIL
import pytest
from PIL import Image

from passl.data import transforms as T
from passl.data.batch_transforms import Normalize
from passl.data.datasets import read_image

CASES_DIR = Path(__file__).parent.parent / "cases"
REFERENCE = json.loads((CASES_DIR / "augment.json").read_text())
CASES = {case["name"]: case for case in REFERENCE["images"]}
SAME_PILLOW = PIL.__version__ == REFERENCE["pillow"]
RNG = np.random.default_rng(0)
ADJUST = [T.adjust_brightness, T.adjust_contrast, T.adjust_saturation, T.adjust_hue]


def load(name):
    return Image.open(CASES_DIR / name).convert("RGB")


def check(image, case):
    """All bytes where this is the reference's Pillow, else a sparse grid with the tolerance of another resampler."""
    if SAME_PILLOW:
        assert hashlib.sha256(image.tobytes()).hexdigest() == case["sha256"]
    expected = np.asarray(load(case["png"]), np.int64)
    got = np.asarray(image, np.int64)[:: case["every"], :: case["every"]]
    assert got.shape == expected.shape
    difference = np.abs(got - expected)
    assert difference.max() <= 1 and (difference > 0).mean() <= (0 if SAME_PILLOW else 0.02)


EVALUATIONS = {
    "eval_resize256_crop224_bilinear": [T.Resize(256), T.CenterCrop(224)],
    "eval_resize256_crop224_bicubic": [T.Resize(256, "bicubic"), T.CenterCrop(224)],
    "timm_crop_pct_0.9_bicubic": [T.Resize(248, "bicubic"), T.CenterCrop(224)],
    "timm_crop_pct_0.875_bilinear": [T.Resize(256, "bilinear"), T.CenterCrop(224)],
    "timm_crop_pct_0.95_bicubic": [T.Resize(235, "bicubic"), T.CenterCrop(224)],
    "timm_squash_384_crop_pct_1.0_bicubic": [T.Resize([384, 384], "bicubic"), T.CenterCrop(384)],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluation_transform_gives_the_reference_pixels_and_normalised_values(name):
    case = CASES[name]
    image = T.apply(EVALUATIONS[name], load("image.png"), RNG)
    check(image, case)
    images = paddle.to_tensor(np.asarray(image).transpose(2, 0, 1)[None])
    got = Normalize("imagenet")({"image": images})["image"][0].numpy()
    expected = case["normalised"]
    np.testing.assert_allclose(got.mean((1, 2)), expected["channel_mean"], atol=1e-5)
    pixels = [got[:, y, x] for y, x in ((0, 0), (10, 20), (100, 50))]
    np.testing.assert_allclose(pixels, expected["pixels_(y,x)_0,0_10,20_100,50"], atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resized_crop_equals_torchvision(interpolation):
    case = CASES[f"resized_crop_96_{interpolation}"]
    box = tuple(case["params"]["i_j_h_w"])
    check(T.resized_crop(load("image.png"), box, (96, 96), interpolation), case)


SMALL = {
    "hflip": T.RandomHorizontalFlip(1.0),
    "grayscale_3": T.RandomGrayscale(1.0),
    "solarize_128": T.Solarize(128, 1.0),
    "torchvision_solarize_128": T.Solarize(128, 1.0),
    "pil_gaussian_blur_0.5": T.GaussianBlur((0.5, 0.5), 1.0),
    "pil_gaussian_blur_1.3": T.GaussianBlur((1.3, 1.3), 1.0),
    "pil_gaussian_blur_2": T.GaussianBlur((2.0, 2.0), 1.0),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", SMALL)
def test_transform_of_a_small_image_equals_the_reference(name):
    check(SMALL[name](load("small.png"), RNG), CASES[name])


@pytest.mark.parity
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("adjust_")])
def test_colour_adjustment_equals_torchvision(name):
    kind = name.split("_")[1]
    adjust = next(f for f in ADJUST if f.__name__ == f"adjust_{kind}")
    check(adjust(load("small.png"), CASES[name]["params"]["factor"]), CASES[name])


class FixedOrder:
    """Stands in for a generator: ``permutation`` gives the order, ``random`` the lower end of each range."""

    def __init__(self, order):
        self.order = order

    def random(self):
        return 0.0

    def permutation(self, count):
        assert count == len(self.order)
        return self.order


@pytest.mark.parity
@pytest.mark.parametrize("name", ["color_jitter_order_0123", "color_jitter_order_3210"])
def test_color_jitter_applies_its_steps_in_the_drawn_order(name):
    params = CASES[name]["params"]
    ranges = {kind: [factor, factor] for kind, factor in params["factors"].items()}
    check(T.ColorJitter(**ranges)(load("small.png"), FixedOrder(params["order"])), CASES[name])


@pytest.mark.parity
@pytest.mark.parametrize("case", REFERENCE["random_resized_crop"], ids=lambda case: case["name"])
def test_random_resized_crop_draws_boxes_as_torchvision_does(case):
    width, height = case["params"]["image_wh"]
    crop, rng, draws = T.RandomResizedCrop(224, scale=case["params"]["scale"]), np.random.default_rng(1), 5000
    top, left, h, w = np.array([crop.draw_box(width, height, rng) for _ in range(draws)], np.float64).T
    assert (top >= 0).all() and (left >= 0).all() and (top + h <= height).all() and (left + w <= width).all()
    room = height - h
    got = {
        "area_fraction": w * h / (width * height),
        "aspect_w_over_h": w / h,
        "log_aspect": np.log(w / h),
        "relative_top": top[room > 0] / room[room > 0],
    }
    for name, values in got.items():
        expected = case["expect"][name]
        error = math.hypot(values.std() / math.sqrt(len(values)), expected["standard_error_of_mean"])
        assert abs(values.mean() - expected["mean"]) <= 5 * error, name


@pytest.mark.parity
def test_jpeg_decodes_as_the_reference_decoder_does():
    pixels = np.asarray(read_image(str(CASES_DIR / "image_q90.jpg")))
    expected = REFERENCE["jpeg"]
    np.testing.assert_allclose(pixels.mean((0, 1)), expected["jpeg_channel_mean"], atol=0.5)
    grid = pixels[[0, 100, 200]][:, [0, 100, 200]].astype(np.int64)
    assert np.abs(grid - expected["jpeg_rows_0_100_200_at_columns_0_100_200"]).mean() <= 1.0
