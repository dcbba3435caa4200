# SPDX-License-Identifier: Apache-2.0
import pickle
import warnings

import numpy as np
import pytest
from PIL import Image

from passl.data.datasets import UnreadableImage, read_image
from passl.data.datasets.image import to_rgb

from ..makers import noise_image, truncate


@pytest.mark.parametrize("mode", ["L", "LA", "P", "CMYK", "RGBA", "1", "YCbCr"])
def test_every_common_mode_becomes_rgb_as_pillow_converts_it(mode, tmp_path):
    image = noise_image().convert(mode)
    assert to_rgb(image).mode == "RGB"
    assert to_rgb(image).tobytes() == image.convert("RGB").tobytes()


def test_palette_with_transparency_becomes_rgb_without_a_warning(tmp_path):
    path = str(tmp_path / "p.png")
    image = noise_image().convert("P")
    image.save(path, transparency=bytes(range(200)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(path).tobytes() == image.convert("RGB").tobytes()


def test_sixteen_bit_grey_is_scaled_and_not_clipped(tmp_path):
    path = str(tmp_path / "deep.png")
    Image.fromarray(np.array([[0, 256, 25600, 65535]], np.uint16)).save(path)
    assert np.asarray(read_image(path))[0, :, 0].tolist() == [0, 1, 100, 255]


def test_orientation_tag_is_not_applied(tmp_path):
    path = str(tmp_path / "turned.jpg")
    exif = Image.Exif()
    exif[274] = 6  # turn by 90 degrees
    noise_image(width=40, height=30).save(path, exif=exif)
    assert read_image(path).size == (40, 30)


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "webp", "tif"])
def test_truncated_file_is_an_error_that_names_the_path(tmp_path, suffix):
    path = str(tmp_path / f"cut.{suffix}")
    noise_image().save(path)
    truncate(path, 0.6)
    with pytest.raises(UnreadableImage, match=rf"cannot read the image .*cut\.{suffix}: ."):
        read_image(path)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "empty"), (b"<html>404</html>", "no image"), (None, "does not exist")]
)
def test_what_is_wrong_with_a_file_is_said_in_words(tmp_path, content, reason):
    path = tmp_path / "x.jpg"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableImage, match=reason):
        read_image(str(path))


def test_the_error_survives_the_way_from_a_worker():
    error = pickle.loads(pickle.dumps(UnreadableImage("a.jpg", "cut off")))
    assert (error.path, error.reason) == ("a.jpg", "cut off") and "a.jpg: cut off" in str(error)
