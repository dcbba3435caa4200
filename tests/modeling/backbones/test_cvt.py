# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.cvt import ConvAttention, CvT
from passl.modeling.layers import QuickGELU


def tiny(**arguments):
    paddle.seed(0)
    model = CvT(**{"dims": [8, 16, 24], "depths": [1, 2, 3], "num_heads": [1, 2, 3], **arguments})
    model.eval()
    return model


def images(height=32, width=32):
    paddle.seed(1)
    return paddle.randn([2, 3, height, width])


def test_attention_equals_the_formula_with_the_scale_of_the_whole_width():
    paddle.seed(0)
    dim, num_heads, grid = 8, 2, (4, 3)
    layer = ConvAttention(dim, num_heads, class_token=True)
    for parameter in layer.parameters():
        if not parameter.stop_gradient:
            parameter.set_value(paddle.randn(parameter.shape))
    layer.eval()
    x = paddle.randn([1, 1 + 12, dim])
    maps = x[:, 1:].transpose([0, 2, 1]).reshape([1, dim, *grid])

    def project(convolve, linear):
        tokens = np.concatenate([x[:, :1].numpy(), convolve(maps).numpy()], axis=1)[0]
        return tokens @ linear.weight.numpy() + linear.bias.numpy()

    q, k, v = (project(getattr(layer, f"conv_proj_{c}"), getattr(layer, f"proj_{c}")) for c in "qkv")
    assert (len(q), len(k), len(v)) == (13, 1 + 4, 1 + 4)
    outputs = []
    for head in (slice(0, 4), slice(4, 8)):
        weights = np.exp(q[:, head] @ k[:, head].T / np.sqrt(dim))  # not sqrt(dim / num_heads)
        outputs.append(weights / weights.sum(-1, keepdims=True) @ v[:, head])
    expected = np.concatenate(outputs, -1) @ layer.proj.weight.numpy() + layer.proj.bias.numpy()
    np.testing.assert_allclose(layer(x, grid).numpy()[0], expected, rtol=1e-4, atol=1e-4)


def test_the_class_token_passes_by_the_convolutions():
    layer = ConvAttention(8, 2, class_token=True)
    layer.eval()
    seen = []
    for name in ("conv_proj_q", "conv_proj_k", "conv_proj_v"):
        getattr(layer, name).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = paddle.randn([1, 1 + 4, 8])
    layer(x, (2, 2))
    assert len(seen) == 3
    assert all((maps.flatten(2).transpose([0, 2, 1]) == x[:, 1:]).all() for maps in seen)


def test_the_class_token_is_in_the_last_stage_alone():
    model = tiny()
    counts = []
    for i in range(3):
        for block in getattr(model, f"stage{i}").blocks:
            block.register_forward_pre_hook(lambda _, inputs: counts.append(inputs[0].shape[1]))
    model(images())
    assert counts == [64, 16, 16, 5, 5, 5]


def test_any_image_size_is_accepted_by_the_same_weights():
    model = tiny()
    assert model(images(36, 64)).shape == [2, 24]
    assert [m.shape for m in model.forward_intermediates(images(36, 64), [0, 1, 2])] == [
        [2, 8, 9, 16],
        [2, 16, 5, 8],
        [2, 24, 3, 4],
    ]


def test_drop_path_rises_in_the_last_stage_alone():
    model = tiny(drop_path_rate=0.2)
    rates = [[block.drop_path.drop_prob for block in getattr(model, f"stage{i}").blocks] for i in range(3)]
    assert rates == [[0.0], [0.0, 0.0], [0.0, 0.1, 0.2]]


def test_the_activation_is_quick_gelu_unless_told_otherwise():
    assert isinstance(tiny().stage0.blocks[0].mlp.act, QuickGELU)
    assert isinstance(tiny(act="gelu").stage0.blocks[0].mlp.act, paddle.nn.GELU)
    with pytest.raises(ValueError, match="act must be one of"):
        tiny(act="relu")


def test_stages_must_agree():
    with pytest.raises(ValueError, match="same number of stages"):
        tiny(depths=[1, 2])


def test_positions_are_known_only_through_the_padding_of_convolutions():
    model = tiny()
    names = [name for name, _ in model.named_parameters()]
    assert not [name for name in names if "pos" in name]
