# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.cait import CaiT, ClassAttention, TalkingHeadAttention

DEPTH = 3


def tiny(**arguments):
    paddle.seed(0)
    return CaiT(img_size=32, patch_size=8, embed_dim=32, depth=DEPTH, num_heads=4, init_scale=0.5, **arguments)


def images():
    paddle.seed(1)
    return paddle.randn([2, 3, 32, 32])


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def linear(layer, x):
    return x @ layer.weight.numpy() + layer.bias.numpy()


def randomize(layer):
    for parameter in layer.parameters():
        parameter.set_value(paddle.randn(parameter.shape) * 0.5)
    return layer


def test_talking_heads_equal_the_formula():
    paddle.seed(0)
    num_heads, width = 3, 4
    layer = randomize(TalkingHeadAttention(num_heads * width, num_heads))
    x = paddle.randn([2, 5, num_heads * width])
    q, k, v = np.split(linear(layer.qkv, x.numpy()), 3, axis=-1)
    expected = np.zeros(x.shape)
    for b in range(2):
        heads = [slice(h * width, (h + 1) * width) for h in range(num_heads)]
        logits = np.stack([q[b][:, h] @ k[b][:, h].T / np.sqrt(width) for h in heads], -1)  # [N, N, H]
        maps = linear(layer.proj_w, np.moveaxis(softmax(np.moveaxis(linear(layer.proj_l, logits), -1, 0)), 0, -1))
        for i, h in enumerate(heads):
            expected[b][:, h] = maps[..., i] @ v[b][:, h]
    np.testing.assert_allclose(layer(x).numpy(), linear(layer.proj, expected), rtol=1e-4, atol=1e-4)


def test_class_attention_equals_the_formula():
    paddle.seed(0)
    layer = randomize(ClassAttention(8, 2))
    x = paddle.randn([1, 5, 8])
    q, k, v = (linear(p, x.numpy()[0]) for p in (layer.q, layer.k, layer.v))
    heads = [slice(0, 4), slice(4, 8)]
    expected = np.concatenate([softmax(q[:1, h] @ k[:, h].T / 2.0) @ v[:, h] for h in heads], -1)
    np.testing.assert_allclose(layer(x).numpy()[0], linear(layer.proj, expected), rtol=1e-4, atol=1e-5)


def test_the_class_token_enters_only_in_the_last_two_blocks():
    model = tiny()
    model.eval()
    calls = []
    for block in [*model.blocks, *model.blocks_token_only]:
        block.register_forward_pre_hook(lambda _, inputs: calls.append([x.shape[1] for x in inputs]))
    model(images())
    assert calls == [[16]] * DEPTH + [[1, 16]] * 2


def test_patches_never_see_the_class_token_nor_are_changed_by_its_blocks():
    model = tiny()
    model.eval()
    before = model.forward_features(images())
    model.cls_token.set_value(model.cls_token + 1.0)
    after = model.forward_features(images())
    assert (before[:, 0] != after[:, 0]).any()
    assert (before[:, 1:] == after[:, 1:]).all()
    patches = model.forward_intermediates(images(), [DEPTH - 1])[0].flatten(2).transpose([0, 2, 1])
    assert (after[:, 1:] - patches).abs().max() < 1e-6


def test_the_class_token_depends_on_every_patch():
    model = tiny()
    model.eval()
    tokens = paddle.randn([1, 17, 32])
    tokens.stop_gradient = False
    model.blocks_token_only[0](tokens[:, :1], tokens[:, 1:]).sum().backward()
    assert (tokens.grad.abs().max(-1) > 0).all()


def test_drop_path_is_constant_in_self_attention_and_absent_in_class_attention():
    model = tiny(drop_path_rate=0.3)
    assert [block.drop_path.drop_prob for block in model.blocks] == [0.3] * DEPTH
    assert [block.drop_path.drop_prob for block in model.blocks_token_only] == [0.0] * 2


def test_positions_are_for_patches_only():
    assert tiny().pos_embed.shape == [1, 16, 32]


def test_layer_scale_starts_at_init_scale():
    model = tiny()
    for block in [*model.blocks, *model.blocks_token_only]:
        assert (block.gamma_1 == 0.5).all()
        assert (block.gamma_2 == 0.5).all()


def test_a_patch_token_depends_on_every_patch():
    model = tiny()
    model.eval()
    x = images()
    changed = x.clone()
    changed[:, :, -8:, -8:] += 1.0
    moved = (model.forward_features(x) - model.forward_features(changed)).abs().max(-1)
    assert (moved > 0).all()


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match=r"width of 30 must be divisible by its num_heads \(=4\)"):
        CaiT(embed_dim=30, num_heads=4, depth=1)
