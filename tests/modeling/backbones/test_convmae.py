# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.convmae import ConvViT, MaskedConvBlock, kept_places
from passl.weights import load_weights

TINY = {"embed_dims": [8, 16, 24], "depths": [1, 2, 2], "num_heads": 3}


def tiny(**arguments) -> ConvViT:
    paddle.seed(0)
    model = ConvViT(**{"img_size": 64, **TINY, **arguments})
    model.eval()
    return model


def images(height=64, width=64):
    return paddle.to_tensor(np.random.RandomState(1).standard_normal((1, 3, height, width)).astype("float32"))


def test_kept_patches_cover_their_places_of_a_finer_map():
    kept = kept_places(paddle.to_tensor([[0, 5]]), (2, 3), 2)
    assert kept.shape == [1, 1, 4, 6]
    assert kept[0, 0].tolist() == [[1, 1, 0, 0, 0, 0]] * 2 + [[0, 0, 0, 0, 1, 1]] * 2


def test_a_block_mixes_5_by_5_places_and_no_more():
    paddle.seed(0)
    block, x = MaskedConvBlock(4), paddle.randn([1, 4, 9, 9])
    changed = x.clone()
    changed[:, 0, 4, 4] += 1.0
    moved = ((block(x) - block(changed)).abs().max(1)[0] > 0).numpy()
    expected = np.zeros([9, 9], bool)
    expected[2:7, 2:7] = True
    assert (moved == expected).all()


@pytest.mark.parametrize("multi_scale", [False, True])
def test_patches_that_are_not_kept_have_no_influence(multi_scale):
    model, x = tiny(multi_scale=multi_scale), images()
    keep = paddle.to_tensor([[0, 5, 6]])
    changed = x.clone()
    changed[:, :, 48:] = 1.0  # the last row of patches, and beside the kept ones:
    changed[:, :, 16:32, :16] = -1.0
    tokens = model.forward_features(x, keep)
    assert tokens.shape == [1, 3, 24]
    assert (tokens == model.forward_features(changed, keep)).all()
    assert float((model(x) - model(changed)).abs().max()) > 1e-4


def test_the_mask_keeps_convolutions_from_looking_beyond_a_patch():
    model, x = tiny(), images()
    every, one = model.forward_features(x).flatten(2)[:, :, :1], model.forward_features(x, paddle.to_tensor([[0]]))
    assert float((every.transpose([0, 2, 1]) - one).abs().max()) > 1e-4


def test_keeping_all_patches_changes_nothing():
    model, x = tiny(multi_scale=True), images()
    tokens = model.forward_features(x, paddle.arange(16).unsqueeze(0))
    assert float((tokens.transpose([0, 2, 1]) - model.forward_features(x).flatten(2)).abs().max()) < 1e-5


def test_scales_of_the_convolutional_stages_are_added_in_pre_training():
    model, x = tiny(multi_scale=True), images()
    before = model.forward_features(x)
    for decode in (model.stage1_output_decode, model.stage2_output_decode):
        decode.bias.set_value(decode.bias + paddle.randn([24]))
        after = model.forward_features(x)
        assert float((before - after).abs().max()) > 1e-3
        before = after
    assert tiny().stage1_output_decode is None


def test_maps_are_a_4th_an_8th_and_a_16th_and_need_not_be_square():
    maps = tiny(img_size=(64, 96)).forward_intermediates(images(64, 96), range(3))
    assert [m.shape for m in maps] == [[1, 8, 16, 24], [1, 16, 8, 12], [1, 24, 4, 6]]


def test_epsilons_are_the_official_ones():
    eps = {name: layer._epsilon for name, layer in tiny().named_sublayers() if hasattr(layer, "_epsilon")}
    assert {name for name, value in eps.items() if value == 1e-6} == {
        "fc_norm",
        *(f"blocks3.{i}.norm{j}" for i in (0, 1) for j in (1, 2)),
    }
    assert set(eps.values()) == {1e-5, 1e-6}


def test_fixed_positions_are_no_parameter():
    fixed = tiny(pos_embed="sincos", global_pool=False)
    assert fixed.no_weight_decay() == set()
    assert tiny().no_weight_decay() == {"pos_embed"}
    assert "pos_embed" in fixed.state_dict()


def test_positions_are_resized_on_load():
    model, larger = tiny(), tiny(img_size=(96, 64))
    report = load_weights(larger, {name: tensor.numpy() for name, tensor in model.state_dict().items()})
    assert [(old, new) for _, old, new in report.resized] == [((1, 16, 24), (1, 24, 24))]


def test_drop_path_rises_through_all_stages():
    model = tiny(drop_path_rate=0.4)
    rates = [block.drop_path.drop_prob for i in (1, 2, 3) for block in getattr(model, f"blocks{i}")]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_depths_of_parameters():
    model = tiny(multi_scale=True)
    names = {
        "patch_embed1.proj.weight": 0,
        "blocks1.0.attn.weight": 1,
        "patch_embed2.norm.bias": 1,
        "blocks2.1.mlp.fc1.weight": 3,
        "pos_embed": 3,
        "patch_embed4.weight": 3,
        "blocks3.1.attn.qkv.weight": 5,
        "fc_norm.weight": 6,
        "stage1_output_decode.weight": 6,
    }
    assert {name: model.layer_id(name) for name in names} == names


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"img_size": 40}, "divisible by 16"), ({"pos_embed": "none"}, "learned"), ({"depths": [1, 1]}, "3 entries")],
)
def test_wrong_arguments_are_explained(wrong, message):
    with pytest.raises(ValueError, match=message):
        tiny(**wrong)
