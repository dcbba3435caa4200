# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle

from passl.methods import Classifier
from passl.modeling.backbones import CaiT
from passl.modeling.heads import ClsHead
from passl.modeling.model import Model


def tiny(cls=Model):
    return cls(CaiT(img_size=32, patch_size=8, embed_dim=32, depth=1, num_heads=4), ClsHead(32, 5))


def test_logits_come_from_the_pooled_features():
    model = tiny()
    model.eval()
    x = paddle.randn([2, 3, 32, 32])
    assert model(x).shape == [2, 5]
    assert paddle.allclose(model(x), model.head(model.architecture(x)))
    assert (model.forward_features(x) == model.architecture.forward_features(x)).all()
    assert (model.forward_intermediates(x, [0])[0] == model.architecture.forward_intermediates(x, [0])[0]).all()


def test_resetting_the_classifier_changes_the_output():
    model = tiny()
    model.reset_classifier(3)
    assert (model.num_classes, model.num_features) == (3, 32)
    assert model(paddle.randn([1, 3, 32, 32])).shape == [1, 3]
    model.reset_classifier(0)
    assert model(paddle.randn([1, 3, 32, 32])).shape == [1, 32]


def test_weights_move_between_model_and_classifier_unchanged():
    model, method = tiny(), tiny(Classifier)
    assert list(model.state_dict()) == list(method.state_dict())
    missing, unexpected = method.set_state_dict(model.state_dict())
    assert not missing
    assert not unexpected
    model.eval()
    method.eval()
    x = paddle.randn([2, 3, 32, 32])
    assert (model(x) == method.predict(x)).all()
