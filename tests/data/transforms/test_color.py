# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from PIL import ImageEnhance, ImageOps

from passl.data import transforms as T

from ..makers import noise_image


def pixels(image):
    return np.asarray(image, np.int64)


@pytest.mark.parametrize("factor", [0.0, 0.35, 1.0, 1.7])
@pytest.mark.parametrize(
    ("adjust", "enhancer"),
    [
        (T.adjust_brightness, ImageEnhance.Brightness),
        (T.adjust_contrast, ImageEnhance.Contrast),
        (T.adjust_saturation, ImageEnhance.Color),
    ],
)
def test_adjustment_equals_pillows_enhancer(adjust, enhancer, factor):
    image = noise_image(3, 61, 47)
    assert adjust(image, factor).tobytes() == enhancer(image).enhance(factor).tobytes()


@pytest.mark.parametrize("threshold", [0, 100, 256])
def test_solarize_equals_pillow(threshold):
    image = noise_image(4)
    assert T.solarize(image, threshold).tobytes() == ImageOps.solarize(image, threshold).tobytes()


def test_a_hue_shift_of_half_a_circle_twice_is_nearly_no_shift():
    red = noise_image().resize((1, 1)).resize((4, 4))
    assert np.abs(pixels(T.adjust_hue(T.adjust_hue(red, 0.5), 0.5)) - pixels(red)).max() <= 8


def test_color_jitter_draws_its_factors_from_the_given_ranges():
    image, jitter, rng = noise_image(), T.ColorJitter(brightness=0.4), np.random.default_rng(0)
    means = [pixels(jitter(image, rng)).mean() / pixels(image).mean() for _ in range(200)]
    assert 0.58 < min(means) < 0.65 and 1.2 < max(means) < 1.4


def test_color_jitter_without_strength_leaves_the_image_alone():
    image = noise_image()
    assert T.ColorJitter()(image, np.random.default_rng(0)) is image


def test_color_jitter_is_skipped_with_the_complement_of_its_probability():
    image, jitter, rng = noise_image(), T.ColorJitter(brightness=[0.5, 0.5], prob=0.2), np.random.default_rng(0)
    changed = sum(jitter(image, rng) is not image for _ in range(1000))
    assert 150 < changed < 250


@pytest.mark.parametrize("make", [T.RandomGrayscale, T.GaussianBlur, T.Solarize])
def test_probability_zero_never_and_one_always_changes_the_image(make):
    image, rng = noise_image(), np.random.default_rng(0)
    assert all(make(prob=0.0)(image, rng) is image for _ in range(20))
    assert all(make(prob=1.0)(image, rng).tobytes() != image.tobytes() for _ in range(20))


@pytest.mark.parametrize("arguments", [{"hue": 0.6}, {"brightness": -1}, {"contrast": [1.2, 0.8]}, {"hue": [-0.6, 0]}])
def test_ranges_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        T.ColorJitter(**arguments)
