# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

from passl.modeling.backbones.vit import ViT
from passl.weights import to_serial

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


def layer_norm(layer, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * layer.weight.numpy() + layer.bias.numpy()


def test_a_parallel_block_equals_the_formula():
    model = tiny(num_branches=3, init_values=0.5)
    block = model.blocks[0]
    for parameter in block.parameters():
        parameter.set_value(paddle.randn(parameter.shape) * 0.5)
    x = paddle.randn([2, 5, 32])

    def run(layer, values):
        return layer(paddle.to_tensor(values)).numpy()

    expected = x.numpy()
    expected = expected + sum(
        branch.ls.gamma.numpy() * run(branch.attn, layer_norm(branch.norm, expected)) for branch in block.attns
    )
    expected = expected + sum(
        branch.ls.gamma.numpy() * run(branch.mlp, layer_norm(branch.norm, expected)) for branch in block.ffns
    )
    np.testing.assert_allclose(block(x).numpy(), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(block(x, num_queries=2).numpy(), expected[:, :2], rtol=1e-4, atol=1e-4)


def test_branches_that_add_nothing_leave_a_serial_model():
    parallel, serial = tiny(num_branches=2), tiny()
    state = to_serial(parallel.state_dict())
    kept = {
        n.replace(f"blocks.{2 * i}.", f"blocks.{i}."): v
        for i in range(3)
        for n, v in state.items()
        if f"blocks.{2 * i}." in n
    }
    serial.set_state_dict({**{n: v for n, v in state.items() if "blocks" not in n}, **kept})
    for block in parallel.blocks:
        for branch in (block.attns[1].attn.proj, block.ffns[1].mlp.fc2):
            branch.weight.set_value(paddle.zeros(branch.weight.shape))
            branch.bias.set_value(paddle.zeros(branch.bias.shape))
    assert difference(parallel(images()), serial(images())) < 1e-5


def test_branches_are_dropped_one_by_one():
    model = tiny(num_branches=2, drop_path_rate=0.5, drop_path_rule="constant")
    model.train()
    branches = [*model.blocks[0].attns, *model.blocks[0].ffns]
    for branch in branches:
        (branch.attn.proj if hasattr(branch, "attn") else branch.mlp.fc2).bias.set_value(paddle.ones([32]))
    x = paddle.randn([16, 4, 32])
    kept = np.array([(np.abs(branch(x).numpy()).max((1, 2)) > 0) for branch in branches])  # [4, 16]
    assert all((kept[i] != kept[j]).any() for i in range(4) for j in range(i))


def test_a_parallel_model_trains_every_branch():
    model = tiny(num_branches=2, init_values=0.1)
    model.train()
    model(images()).square().sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []
    assert model.layer_id("blocks.1.attns.0.norm.weight") == 2


def test_forward_is_the_normed_class_token_although_the_last_block_sees_no_other_query():
    model = tiny(num_register_tokens=2)
    x = images()
    shortcut, full = model(x), model.forward_features(x)[:, 0]
    assert difference(shortcut, full) < 1e-5
    direction = paddle.randn(shortcut.shape)
    for name, parameter in model.named_parameters():
        mine, reference = (paddle.grad(y, parameter, direction, retain_graph=True)[0] for y in (shortcut, full))
        assert difference(mine, reference) < 1e-5 * max(1.0, float(reference.abs().max())), name


def test_average_pooling_norms_the_mean_of_the_patches():
    model = tiny(global_pool="avg")
    tokens = model.forward_features(images())
    assert difference(model(images()), model.fc_norm(tokens[:, 1:].mean(1))) < 1e-6
    assert not [name for name in model.state_dict() if name.startswith("norm.")]


def test_kept_patches_have_their_own_positions_and_see_only_each_other():
    model, x = tiny(), images()
    keep = paddle.to_tensor([[3, 0, 9], [15, 2, 1]])
    kept = model.forward_features(x, keep=keep)
    assert kept.shape == [2, 1 + 3, 32]
    changed = x.clone()
    changed[0, :, 8:16, 8:16] = 0.0  # patch 5, which is left out
    assert difference(kept, model.forward_features(changed, keep=keep)) == 0
    everything = paddle.arange(16).tile([2, 1])
    assert difference(model.forward_features(x, keep=everything), model.forward_features(x)) < 1e-5


def test_masked_patches_cannot_be_seen():
    model, x = tiny(use_mask_token=True), images()
    mask = paddle.zeros([2, 16], dtype="bool")
    assert difference(model.forward_features(x, mask=mask), model.forward_features(x)) == 0
    mask[:, 5] = True
    changed = x.clone()
    changed[:, :, 8:16, 8:16] = 0.0
    assert difference(model.forward_features(x, mask=mask), model.forward_features(changed, mask=mask)) == 0
    assert difference(model.forward_features(x, mask=mask), model.forward_features(x)) > 1e-3
    with pytest.raises(ValueError, match="use_mask_token=True"):
        tiny().forward_features(x, mask=mask)


def test_fixed_positions_are_a_buffer_that_is_zero_for_the_class_token():
    model = tiny(pos_embed="sincos")
    assert "pos_embed" in dict(model.named_buffers()) and "pos_embed" not in dict(model.named_parameters())
    assert not model.pos_embed[0, 0].any() and model.pos_embed[0, 1].any()


def test_positions_for_patches_only_leave_the_prefix_tokens_alone():
    model = tiny(no_embed_class=True, num_register_tokens=1)
    assert model.pos_embed.shape == [1, 16, 32]
    entered = []
    model.blocks[0].register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
    model(images())
    assert difference(entered[0][:, 0], model.cls_token[:, 0].expand([2, 32])) == 0


def test_a_pre_norm_model_norms_what_enters_the_first_block_and_has_no_patch_bias():
    model = tiny(pre_norm=True)
    assert model.patch_embed.proj.bias is None and "norm_pre.weight" in model.state_dict()
    entered = []
    model.blocks[0].register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
    model(images())
    assert float(entered[0].mean(-1).abs().max()) < 1e-5


def test_any_size_resizes_the_positions_and_other_models_refuse():
    x = paddle.randn([1, 3, 48, 16])
    model = tiny(dynamic_img_size=True)
    assert model.forward_features(x).shape == [1, 1 + 12, 32]
    assert model.forward_intermediates(x, [-1])[0].shape == [1, 32, 6, 2]
    assert difference(model(images()), tiny()(images())) < 1e-6
    with pytest.raises(ValueError, match="images are 48x16 pixels but the model was built for 32x32"):
        tiny()(x)
