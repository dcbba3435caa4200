# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle
import pytest
from paddle import nn

from passl.modeling.heads.mlp_head import MLPHead


def kinds(head):
    return [type(layer).__name__ for layer in head]


def has_bias(head):
    return [layer.bias is not None for layer in head if isinstance(layer, nn.Linear)]


def test_norm_and_activation_follow_each_hidden_layer():
    head = MLPHead(8, [16, 12], 4)
    assert kinds(head) == ["Linear", "BatchNorm1D", "ReLU", "Linear", "BatchNorm1D", "ReLU", "Linear"]
    assert [layer.weight.shape for layer in head if isinstance(layer, nn.Linear)] == [[8, 16], [16, 12], [12, 4]]
    assert head(paddle.randn([5, 8])).shape == [5, 4]


def test_linear_layers_have_a_bias_only_where_no_norm_follows():
    assert has_bias(MLPHead(8, [16], 4)) == [False, True]
    assert has_bias(MLPHead(8, [16], 4, last_norm=True)) == [False, False]
    assert has_bias(MLPHead(8, [16], 4, norm=None)) == [True, True]


def test_byol_s_biases_can_be_had():
    assert has_bias(MLPHead(8, [16], 4, bias=True, last_bias=False)) == [True, False]


def test_the_last_norm_can_do_without_weights():
    head = MLPHead(8, [], 4, last_norm=True, last_affine=False)
    assert kinds(head) == ["Linear", "BatchNorm1D"]
    assert [name for name, p in head.named_parameters() if not p.stop_gradient] == ["0.weight"]


def test_no_hidden_layer_is_one_linear_map():
    head = MLPHead(8, [], 4)
    x = paddle.randn([5, 8])
    assert paddle.allclose(head(x), x @ head[0].weight + head[0].bias)


def test_layer_norm_and_another_activation_can_be_chosen():
    assert kinds(MLPHead(8, [16], 4, norm="layer", act="gelu")) == ["Linear", "LayerNorm", "GELU", "Linear"]


def test_weights_start_as_pytorch_s_do():
    paddle.seed(0)
    for parameter in MLPHead(100, [], 200).parameters():
        assert float(parameter.abs().max()) <= 0.1
        assert float(parameter.std()) == pytest.approx(0.1 / 3**0.5, rel=0.1)


def test_impossible_norms_and_activations_are_refused():
    with pytest.raises(ValueError, match="act must be one of relu, gelu"):
        MLPHead(8, [16], 4, act="elu")
    with pytest.raises(ValueError, match="norm must be one of"):
        MLPHead(8, [16], 4, norm="group")
    with pytest.raises(ValueError, match="last_norm"):
        MLPHead(8, [16], 4, norm=None, last_norm=True)
