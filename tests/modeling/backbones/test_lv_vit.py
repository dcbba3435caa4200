# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle
import pytest

from passl.modeling.backbones.lv_vit import LVViT
from passl.modeling.heads import build_head


def tiny(**arguments):
    paddle.seed(0)
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 3, "num_heads": 4, "stem_dim": 8}
    model = LVViT(**{**sizes, **arguments})
    model.eval()
    return model


def images():
    paddle.seed(1)
    return paddle.randn([2, 3, 32, 32])


def test_residual_branches_are_divided_by_skip_lam():
    block, x = tiny(skip_lam=2.0).blocks[0], paddle.randn([1, 5, 32])
    middle = x + block.attn(block.norm1(x)) / 2.0
    expected = middle + block.mlp(block.norm2(middle)) / 2.0
    np.testing.assert_allclose(block(x).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_the_stem_has_stride_two_and_the_projection_the_rest_of_the_patch():
    embed = tiny().patch_embed
    assert [list(conv.weight.shape) for conv in (embed.conv1, embed.conv2, embed.conv3, embed.proj)] == [
        [8, 3, 7, 7],
        [8, 8, 3, 3],
        [8, 8, 3, 3],
        [32, 8, 4, 4],
    ]
    assert embed(images()).shape == [2, 16, 32]


def test_patches_reach_the_logits_through_a_classifier_of_their_own():
    model = tiny(return_tokens=True)
    head = build_head({"name": "TokenLabelHead", "in_dim": 32, "num_classes": 3})
    tokens = model(images())
    assert tokens.shape == [2, 17, 32]
    head.fc_aux.bias.set_value(paddle.to_tensor([0.0, 2.0, 0.0]))
    without = head.fc(tokens[:, 0]) + 0.5 * (tokens[:, 1:] @ head.fc_aux.weight).max(1)
    assert (head(tokens) - without - paddle.to_tensor([0.0, 1.0, 0.0])).abs().max() < 1e-5


def test_the_class_token_is_the_same_with_and_without_the_others():
    assert (tiny()(images()) - tiny(return_tokens=True)(images())[:, 0]).abs().max() < 1e-5


def test_drop_path_rises_linearly():
    assert [block.drop_path.drop_prob for block in tiny(drop_path_rate=0.2).blocks] == [0.0, 0.1, 0.2]


def test_projections_of_queries_keys_and_values_have_no_bias():
    assert tiny().blocks[0].attn.qkv.bias is None


def test_odd_patches_are_refused():
    with pytest.raises(ValueError, match="must be even"):
        tiny(patch_size=7, img_size=28)
