# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle

from passl.modeling.heads import build_head


def head(num_classes=3):
    paddle.seed(0)
    return build_head({"name": "TokenLabelHead", "in_dim": 4, "num_classes": num_classes})


def test_logits_are_the_class_tokens_and_half_of_each_classs_best_patch():
    layer, tokens = head(), paddle.randn([2, 6, 4])
    logits = tokens[:, 0].numpy() @ layer.fc.weight.numpy()
    patches = tokens[:, 1:].numpy() @ layer.fc_aux.weight.numpy()
    for b in range(2):
        for k in range(3):
            expected = logits[b, k] + 0.5 * max(patches[b, :, k])
            np.testing.assert_allclose(layer(tokens)[b, k].numpy(), expected, rtol=1e-4, atol=1e-6)


def test_a_loss_for_each_patch_gets_the_logits_apart():
    layer, tokens = head(), paddle.randn([2, 6, 4])
    logits, patches = layer.token_logits(tokens)
    assert (logits.shape, patches.shape) == ([2, 3], [2, 5, 3])
    assert ((logits + 0.5 * patches.max(1)) == layer(tokens)).all()


def test_no_classes_pass_the_class_token_on():
    tokens = paddle.randn([2, 6, 4])
    assert (head(0)(tokens) == tokens[:, 0]).all()


def test_reset_replaces_both_classifiers():
    layer = head()
    layer.reset(5)
    assert layer(paddle.randn([2, 6, 4])).shape == [2, 5]
