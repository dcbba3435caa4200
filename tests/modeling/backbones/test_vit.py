# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

from passl.modeling.backbones.vit import ViT

TINY = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 3, "num_heads": 4}


def tiny(**arguments):
    paddle.seed(0)
    model = ViT(**{**TINY, **arguments})
    model.eval()
    return model


def images(batch=2):
    paddle.seed(1)
    return paddle.randn([batch, 3, 32, 32])


def difference(a, b):
    return float((a - b).abs().max())


def test_a_distilled_model_returns_its_first_two_tokens():
    model = tiny(distilled=True)
    assert model.num_prefix_tokens == 2
    assert model.pos_embed.shape == [1, 2 + 16, 32]
    tokens = model.forward_features(images())
    assert tokens.shape == [2, 2 + 16, 32]
    assert difference(model(images()), tokens[:, :2]) < 1e-5
    assert "dist_token" in model.no_weight_decay()


def test_the_distillation_token_stands_between_class_and_register_tokens():
    model = tiny(distilled=True, num_register_tokens=3, no_embed_class=True)
    entered = []
    model.blocks[0].register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
    model(images())
    for place, token in ((0, model.cls_token), (1, model.dist_token), (slice(2, 5), model.reg_token)):
        assert difference(entered[0][0, place], token[0] if isinstance(place, slice) else token[0, 0]) == 0


def test_distillation_needs_the_class_token():
    with pytest.raises(ValueError, match="returns two tokens"):
        tiny(distilled=True, global_pool="avg")


def test_a_graph_of_a_distilled_model_gives_the_same_tokens():
    model = tiny(distilled=True)
    expected = model(images())
    assert difference(paddle.jit.to_static(model)(images()), expected) < 1e-5


def test_stochastic_depth_is_linear_or_constant():
    linear = [block.drop_path.drop_prob for block in tiny(drop_path_rate=0.2).blocks]
    np.testing.assert_allclose(linear, [0.0, 0.1, 0.2])
    constant = [block.drop_path.drop_prob for block in tiny(drop_path_rate=0.2, drop_path_rule="constant").blocks]
    assert constant == [0.2, 0.2, 0.2]


def test_swiglu_gates_the_mlp_as_the_formula_says():
    mlp = tiny(act="swiglu", mlp_ratio=2.0).blocks[0].mlp
    x = paddle.randn([5, 32])
    w, v = np.split(mlp.fc1.weight.numpy(), 2, axis=1)
    gate = x.numpy() @ w
    expected = (gate / (1 + np.exp(-gate)) * (x.numpy() @ v)) @ mlp.fc2.weight.numpy()
    np.testing.assert_allclose(mlp(x).numpy(), expected, atol=1e-5)
    assert mlp.fc2.weight.shape == [64, 32]


def test_quick_gelu_is_not_gelu():
    exact, quick = tiny(), tiny(act="quick_gelu")
    x = paddle.linspace(-3, 3, 7)
    assert difference(quick.blocks[0].mlp.act(x), x * F.sigmoid(1.702 * x)) < 1e-6
    assert difference(quick(images()), exact(images())) > 0


def test_unknown_choices_are_named():
    for key in ("pos_embed", "global_pool", "drop_path_rule", "act"):
        with pytest.raises(ValueError, match=f"{key} must be one of"):
            tiny(**{key: "other"})
