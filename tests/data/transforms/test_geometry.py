# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from PIL import Image

from passl.data import transforms as T
from passl.utils.errors import DataError

from ..makers import noise_image


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("size", "wanted"), [((500, 375), (341, 256)), ((375, 500), (256, 341)), ((256, 256), (256, 256))]
)
def test_resize_keeps_the_aspect_ratio_and_truncates_the_long_side(size, wanted):
    assert T.resize(Image.new("RGB", size), 256).size == wanted


def test_resize_to_a_pair_is_height_then_width():
    assert T.Resize([20, 50])(noise_image(), rng()).size == (50, 20)


def test_center_crop_offset_rounds_half_to_even():
    image = Image.fromarray(np.arange(341, dtype=np.uint8)[None, :, None].repeat(256, 0).repeat(3, 2))
    assert np.asarray(T.center_crop(image, 224))[0, 0, 0] == 58  # (341 - 224) / 2 = 58.5


def test_center_crop_pads_a_small_image_with_black_around_it():
    pixels = np.asarray(T.CenterCrop(35)(Image.new("RGB", (40, 30), (9, 9, 9)), rng()))
    assert pixels.shape == (35, 35, 3)
    assert (pixels[:2] == 0).all() and (pixels[2:32] == 9).all() and (pixels[32:] == 0).all()


def test_random_crop_cuts_every_place_of_the_padded_image():
    crop = T.RandomCrop(4, padding=1, fill=7)
    image = Image.new("RGB", (4, 4))
    cuts = {np.asarray(crop(image, rng(seed)))[:, :, 0].tobytes() for seed in range(200)}
    assert len(cuts) == 9


def test_random_crop_says_that_the_image_is_too_small():
    with pytest.raises(DataError, match=r"cuts 64x64 pixels.*only 30x40.*Resize"):
        T.RandomCrop(64)(noise_image(), rng())


def test_random_resized_crop_falls_back_to_the_largest_centred_part():
    crop = T.RandomResizedCrop(8, scale=(1.0, 1.0))
    assert crop.draw_box(1000, 10, rng()) == (0, 493, 10, 13)
    assert crop.draw_box(10, 1000, rng()) == (493, 0, 13, 10)


def test_random_interpolation_uses_both_kernels():
    crop = T.RandomResizedCrop(16, scale=(1, 1), ratio=(4 / 3, 4 / 3), interpolation="random")
    results = {crop(noise_image(), rng(seed)).tobytes() for seed in range(20)}
    wanted = {T.resize(noise_image(), (16, 16), kind).tobytes() for kind in ("bilinear", "bicubic")}
    assert results == wanted


def test_flip_happens_as_often_as_asked():
    flip, image = T.RandomHorizontalFlip(0.3), noise_image()
    source = rng()
    flipped = sum(flip(image, source).tobytes() != image.tobytes() for _ in range(1000))
    assert 250 < flipped < 350


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: T.Resize(0), "size=0"),
        (lambda: T.Resize(8, "cubic"), "expected one of nearest, bilinear"),
        (lambda: T.RandomResizedCrop(8, scale=(0.5, 2.0)), "scale"),
        (lambda: T.RandomResizedCrop(8, ratio=(2.0, 1.0)), "ratio"),
        (lambda: T.RandomHorizontalFlip(1.5), "probability"),
    ],
)
def test_bad_arguments_are_refused_with_the_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
