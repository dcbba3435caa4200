# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle
import pytest

from passl.modeling.backbones.gmlp import gMLP
from passl.modeling.backbones.mixer import Mixer
from passl.modeling.backbones.patch_mlp import over_patches
from passl.modeling.backbones.resmlp import ResMLP

SMALL = {"img_size": (16, 24), "patch_size": 8, "embed_dim": 12, "depth": 2}

every_family = pytest.mark.parametrize("family", [Mixer, ResMLP, gMLP])


def test_over_patches_is_the_layer_on_each_channel():
    layer, x = paddle.nn.Linear(4, 6), paddle.randn([2, 4, 3])
    result = over_patches(layer, x)
    assert result.shape == [2, 6, 3]
    assert paddle.allclose(result[1, :, 2], layer(x[1, :, 2]), atol=1e-6)


@every_family
def test_forward_is_the_mean_of_the_patches(family):
    model, x = family(**SMALL), paddle.randn([2, 3, 16, 24])
    assert paddle.allclose(model(x), model.forward_features(x).mean(1))


@every_family
def test_maps_have_the_grid_of_the_image_row_by_row(family):
    model, x = family(**SMALL), paddle.randn([1, 3, 16, 24])
    patches = model.forward_features(x)
    (last,) = model.forward_intermediates(x, [-1])
    assert last.shape == [1, 12, 2, 3]
    assert paddle.allclose(last[0, :, 1, 0], patches[0, 3], atol=1e-6)


@every_family
def test_another_number_of_patches_is_refused_with_the_size_that_fits(family):
    with pytest.raises(ValueError, match="built for 16x24"):
        family(**SMALL)(paddle.randn([1, 3, 24, 24]))


@every_family
def test_state_names_are_timm_s(family):
    names = list(family(**SMALL).state_dict())
    assert {name.split(".")[0] for name in names} == {"stem", "blocks", "norm"}
    assert "stem.proj.weight" in names
