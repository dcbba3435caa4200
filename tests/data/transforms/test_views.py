# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from passl.data import transforms as T
from passl.utils.registry import TRANSFORMS, build

from ..makers import Arange, noise_image

CROP = {"name": "RandomResizedCrop", "size": 16}


def rng():
    return np.random.default_rng(0)


def test_views_repeats_one_pipeline_with_new_randomness():
    views = build({"name": "Views", "count": 3, "transforms": [CROP]}, TRANSFORMS)(noise_image(), rng())
    assert [view.size for view in views] == [(16, 16)] * 3
    assert len({view.tobytes() for view in views}) == 3


def test_views_with_one_pipeline_each():
    config = {"name": "Views", "views": [[CROP], [{"name": "CenterCrop", "size": 8}]]}
    assert [view.size for view in build(config, TRANSFORMS)(noise_image(), rng())] == [(16, 16), (8, 8)]


def test_multi_crop_gives_each_kind_as_often_as_asked_in_order():
    config = {"name": "MultiCrop", "counts": [2, 4], "views": [[CROP], [{"name": "RandomResizedCrop", "size": 8}]]}
    transform = build(config, TRANSFORMS)
    views = transform(noise_image(), rng())
    assert [view.size[0] for view in views] == [16, 16, 8, 8, 8, 8]
    assert transform.count == 6 and len({view.tobytes() for view in views}) == 6


def test_a_transform_after_views_is_refused():
    with pytest.raises(ValueError, match=r"transforms\[0\] Views .* must be the last"):
        Arange(transforms=[T.Views([T.CenterCrop(4)]), T.CenterCrop(4)])


def test_views_inside_views_are_refused():
    with pytest.raises(ValueError, match=r"views\[0\]\.transforms\[0\] Views"):
        T.Views([T.Views([T.CenterCrop(4)])])


@pytest.mark.parametrize("arguments", [{}, {"transforms": [], "views": [[]]}, {"transforms": [], "count": 0}])
def test_views_without_exactly_one_description_is_refused(arguments):
    with pytest.raises(ValueError, match="views"):
        T.Views(**arguments)


def test_every_registered_transform_says_its_arguments():
    for name in TRANSFORMS:
        assert TRANSFORMS.parameters(name), name
    assert repr(T.Resize(8)) == "Resize(size=8, interpolation='bilinear')"
