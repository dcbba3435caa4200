# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.pvt import PVT, ReducedAttention, as_map, as_tokens
from passl.weights import load_weights

TINY = {"embed_dims": [8, 16, 24, 32], "depths": [1, 2, 1, 1], "num_heads": [1, 2, 3, 4]}


def tiny(**arguments) -> PVT:
    paddle.seed(0)
    return PVT(**{"img_size": 64, **TINY, **arguments})


def randomize(layer):
    for parameter in layer.parameters():
        parameter.set_value(paddle.randn(parameter.shape) * 0.5)
    layer.eval()
    return layer


def test_keys_and_values_come_from_patches_of_the_map():
    paddle.seed(0)
    grid, side, dim = (4, 6), 2, 4
    layer = randomize(ReducedAttention(dim, 1, side))
    x = paddle.randn([1, 24, dim])
    maps = x.numpy()[0].reshape(2, side, 3, side, dim).transpose(0, 2, 4, 1, 3).reshape(6, -1)  # one row for each patch
    reduced = maps @ layer.sr.weight.numpy().reshape(dim, -1).T + layer.sr.bias.numpy()
    reduced = (reduced - reduced.mean(1, keepdims=True)) / np.sqrt(reduced.var(1, keepdims=True) + 1e-5)
    reduced = reduced * layer.norm.weight.numpy() + layer.norm.bias.numpy()
    kv = reduced @ layer.kv.weight.numpy() + layer.kv.bias.numpy()
    q = x.numpy()[0] @ layer.q.weight.numpy() + layer.q.bias.numpy()
    weights = np.exp(q @ kv[:, :dim].T / 2.0)  # 2 is the root of the head's width
    out = (weights / weights.sum(1, keepdims=True)) @ kv[:, dim:]
    expected = out @ layer.proj.weight.numpy() + layer.proj.bias.numpy()
    np.testing.assert_allclose(layer(x, grid).numpy()[0], expected, rtol=1e-4, atol=1e-5)


def test_a_pooled_map_has_the_same_size_for_any_image():
    layer = ReducedAttention(4, 1, pool=7)
    seen = []
    layer.norm.register_forward_post_hook(lambda _, inputs, output: seen.append(output.shape))
    for grid in ((8, 8), (20, 14)):
        layer(paddle.randn([1, grid[0] * grid[1], 4]), grid)
    assert seen == [[1, 49, 4]] * 2


def test_a_ratio_of_one_leaves_plain_attention():
    layer = ReducedAttention(8, 2)
    assert {name.split(".")[0] for name, _ in layer.named_parameters()} == {"q", "kv", "proj"}


def test_tokens_and_maps_are_row_by_row():
    tokens = paddle.arange(12, dtype="float32").reshape([1, 6, 2])
    assert as_map(tokens, (2, 3))[0, 0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert (as_tokens(as_map(tokens, (2, 3))) == tokens).all()


def test_the_class_token_enters_in_the_last_stage():
    model = randomize(tiny())
    x = paddle.randn([1, 3, 64, 64])
    maps, vector = model.forward_intermediates(x, [0, 1, 2]), model(x)
    model.cls_token.set_value(paddle.randn(model.cls_token.shape))
    assert all((a == b).all() for a, b in zip(maps, model.forward_intermediates(x, [0, 1, 2])))
    assert float((model(x) - vector).abs().max()) > 1e-3


def test_forward_is_the_class_token_not_a_mean():
    model = randomize(tiny())
    x = paddle.randn([1, 3, 64, 64])
    assert float((model(x) - model.forward_features(x).mean([2, 3])).abs().max()) > 1e-3
    assert (model(x) == model._run(x, [3])[3][:, 0]).all()


def test_maps_halve_from_stage_to_stage_and_need_not_be_square():
    maps = tiny(img_size=(64, 96)).forward_intermediates(paddle.randn([1, 3, 64, 96]), range(4))
    assert [m.shape for m in maps] == [[1, 8 * (i + 1), 16 >> i, 24 >> i] for i in range(4)]


def test_epsilons_are_the_official_ones():
    with paddle.LazyGuard():
        layers = tiny().named_sublayers()
    wide = {name for name, layer in layers if getattr(layer, "_epsilon", None) == 1e-5}
    embeds = {f"patch_embed{i}.norm" for i in (1, 2, 3, 4)}
    assert wide == embeds | {f"block{i + 1}.{j}.attn.norm" for i, d in enumerate([1, 2, 1]) for j in range(d)}


def test_positions_of_all_stages_are_resized_on_load():
    model = tiny()
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    larger = tiny(img_size=(96, 64))
    report = load_weights(larger, arrays)
    shapes = {name.removeprefix("architecture."): new for name, _, new in report.resized}
    assert shapes == {f"pos_embed{i + 1}": (1, n, 8 * (i + 1)) for i, n in enumerate((384, 96, 24, 7))}
    assert (larger.pos_embed4[:, 0] == model.pos_embed4[:, 0]).all()  # the class token's
    middle = as_map(larger.pos_embed1, (24, 16))[0, :, 1]  # its centre lies at row (1 + 0.5) * 2/3 - 0.5 = 0.5
    expected = as_map(model.pos_embed1, (16, 16))[0, :, :2].mean(1)
    np.testing.assert_allclose(middle.numpy(), expected.numpy(), atol=1e-6)


def test_drop_path_rises_through_all_stages():
    with paddle.LazyGuard():
        model = tiny(drop_path_rate=0.4)
    rates = [b.drop_path.drop_prob for i in (1, 2, 3, 4) for b in getattr(model, f"block{i}")]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_depths_of_parameters():
    with paddle.LazyGuard():
        model = tiny()
    names = {
        "patch_embed1.proj.weight": 0,
        "pos_embed1": 0,
        "block1.0.attn.sr.weight": 1,
        "pos_embed2": 1,
        "block2.1.mlp.fc1.weight": 3,
        "patch_embed4.norm.bias": 4,
        "cls_token": 4,
        "block4.0.norm2.weight": 5,
        "norm.weight": 6,
    }
    assert {name: model.layer_id(name) for name in names} == names
    assert model.no_weight_decay() == {"cls_token"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"depths": [1, 1, 1]}, "depths must have one entry for each of the 4 stages"),
        ({"sr_ratios": [8, 4, 2, 2]}, "sr_ratio must be 1"),
        ({"num_heads": [1, 3, 3, 4]}, "divisible by its num_heads"),
        ({"img_size": 40}, "divisible by patch_size"),
    ],
)
def test_wrong_arguments_are_explained(wrong, message):
    with pytest.raises(ValueError, match=message), paddle.LazyGuard():
        tiny(**wrong)
