# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle
import pytest

from passl.modeling.heads import build_head
from passl.modeling.heads.cls_head import ClsHead, DistilledClsHead


def test_logits_are_linear_in_the_features():
    head = build_head({"name": "ClsHead", "in_dim": 8, "num_classes": 5})
    x = paddle.randn([3, 8])
    assert head(x).shape == [3, 5]
    assert paddle.allclose(head(x), x @ head.fc.weight + head.fc.bias)


def test_weights_start_small_and_the_bias_at_zero():
    paddle.seed(0)
    head = ClsHead(512, 100, init_std=0.01)
    assert float(head.fc.weight.std()) == pytest.approx(0.01, rel=0.05)
    assert (head.fc.bias == 0).all()


def test_no_classes_passes_the_features_on():
    head = ClsHead(8, 0)
    x = paddle.randn([3, 8])
    assert (head(x) == x).all()
    assert head.parameters() == []


def test_reset_changes_the_number_of_classes_both_ways():
    head = ClsHead(8, 5)
    for num_classes in (3, 0, 7):
        head.reset(num_classes)
        assert head.num_classes == num_classes
        assert head(paddle.randn([2, 8])).shape == [2, num_classes or 8]


def test_dropout_acts_in_training_only():
    paddle.seed(0)
    head = ClsHead(64, 0, drop=0.5)
    x = paddle.ones([4, 64])
    assert (head(x) == 0).any()
    head.eval()
    assert (head(x) == x).all()


def test_a_negative_number_of_classes_is_refused():
    with pytest.raises(ValueError, match="num_classes"):
        ClsHead(8, -1)


def distilled_logits(head, tokens):
    return tokens[:, 0] @ head.fc.weight + head.fc.bias, tokens[:, 1] @ head.fc_dist.weight + head.fc_dist.bias


def test_two_classifiers_answer_apart_in_training_and_together_in_evaluation():
    paddle.seed(0)
    head = build_head({"name": "DistilledClsHead", "in_dim": 8, "num_classes": 5})
    tokens = paddle.randn([3, 2, 8])
    expected = distilled_logits(head, tokens)
    answers = head(tokens)
    assert isinstance(answers, tuple)
    for answer, logits in zip(answers, expected):
        assert paddle.allclose(answer, logits, atol=1e-6)
    head.eval()
    assert paddle.allclose(head(tokens), (expected[0] + expected[1]) / 2, atol=1e-6)


def test_resetting_renews_both_classifiers():
    head = DistilledClsHead(8, 5)
    head.reset(3)
    assert head.fc.weight.shape == head.fc_dist.weight.shape == [8, 3]
    head.reset(0)
    head.eval()
    tokens = paddle.randn([2, 2, 8])
    assert paddle.allclose(head(tokens), tokens.mean(1))
