# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle
import pytest

from passl.modeling.heads import LeViTHead


def test_training_gives_both_logits_and_evaluation_their_mean():
    paddle.seed(0)
    head, x = LeViTHead(8, 3), paddle.randn([4, 8])
    first, second = head(x)
    assert first.shape == second.shape == [4, 3]
    head.eval()
    expected = (head.fc(x) + head.fc_dist(x)) / 2
    assert float((head(x) - expected).abs().max()) == 0.0
    assert float((head.fc(x) - head.fc_dist(x)).abs().max()) > 0.0


def test_each_classifier_norms_the_features_itself():
    names = {name.rpartition(".")[0] for name in LeViTHead(8, 3).state_dict()}
    assert names == {"fc.bn", "fc.linear", "fc_dist.bn", "fc_dist.linear"}


def test_without_a_teacher_there_is_one_classifier():
    head = LeViTHead(8, 3, distilled=False)
    assert head(paddle.randn([2, 8])).shape == [2, 3]
    assert head.fc_dist is None


def test_no_classes_pass_the_features_on():
    head, x = LeViTHead(8, 3), paddle.randn([2, 8])
    head.reset(0)
    assert head(x) is x
    head.reset(5)
    assert [logits.shape for logits in head(x)] == [[2, 5], [2, 5]]
    with pytest.raises(ValueError, match="num_classes"):
        head.reset(-1)
