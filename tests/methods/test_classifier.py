# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import paddle
from paddle import nn

from passl.methods import Classifier
from passl.modeling.backbones import ViT
from passl.modeling.heads import build_head


class Mean(nn.Layer):
    """[B, 3, H, W] -> [B, 3]."""

    def forward(self, images):
        return images.mean([2, 3])


def classifier(num_classes=3):
    paddle.seed(0)
    return Classifier(Mean(), build_head({"name": "ClsHead", "in_dim": 3, "num_classes": num_classes}))


def batch(size=6):
    rng = np.random.default_rng(0)
    images = paddle.to_tensor(rng.standard_normal([size, 3, 4, 4]).astype("float32"))
    return {"image": images, "label": paddle.to_tensor(rng.integers(0, 3, size))}


def test_loss_is_the_cross_entropy_of_head_after_backbone():
    method, data = classifier(), batch()
    logits = method.predict(data["image"]).numpy().astype("float64")
    labels = data["label"].numpy()
    log_sum = np.log(np.exp(logits).sum(1))
    outputs = method(data)
    np.testing.assert_allclose(float(outputs["loss"]), (log_sum - logits[np.arange(6), labels]).mean(), rtol=1e-5)
    np.testing.assert_allclose(float(outputs["train_top1"]), 100 * (logits.argmax(1) == labels).mean(), rtol=1e-6)


def test_soft_targets_are_accepted_and_give_the_same_loss_when_one_hot():
    method, data = classifier(), batch()
    soft = {**data, "label": nn.functional.one_hot(data["label"], 3)}
    np.testing.assert_allclose(float(method(soft)["loss"]), float(method(data)["loss"]), rtol=1e-6)


def test_features_are_the_backbones_and_chance_is_the_log_of_the_classes():
    method, data = classifier(), batch()
    np.testing.assert_array_equal(method.features(data["image"]).numpy(), data["image"].mean([2, 3]).numpy())
    assert method.chance_level(99)[0] == math.log(3)


class TwoTokens(nn.Layer):
    """[B, 3, H, W] -> [B, 2, 3], the mean and the largest value."""

    def forward(self, images):
        return paddle.stack([images.mean([2, 3]), images.max([2, 3])], axis=1)


def test_labels_train_both_classifiers_of_a_distilled_model():
    paddle.seed(0)
    head = build_head({"name": "DistilledClsHead", "in_dim": 3, "num_classes": 3})
    method, data = Classifier(TwoTokens(), head), batch()
    tokens = TwoTokens()(data["image"])
    losses = [float(method.loss(fc(tokens[:, i]), data["label"])) for i, fc in enumerate((head.fc, head.fc_dist))]
    outputs = method(data)
    np.testing.assert_allclose(float(outputs["loss"]), np.mean(losses), rtol=1e-5)
    outputs["loss"].backward()
    assert all(parameter.grad is not None for parameter in method.parameters())
    method.eval()
    assert method.predict(data["image"]).shape == [6, 3]
    np.testing.assert_allclose(method.features(data["image"]).numpy(), tokens.mean(1).numpy(), rtol=1e-6)


def test_a_graph_of_a_distilled_model_has_the_same_loss_and_answer():
    paddle.seed(0)
    backbone = ViT(img_size=16, patch_size=8, embed_dim=16, depth=1, num_heads=2, distilled=True)
    method = Classifier(backbone, build_head({"name": "DistilledClsHead", "in_dim": 16, "num_classes": 3}))
    data = {"image": paddle.randn([2, 3, 16, 16]), "label": paddle.to_tensor([0, 2])}
    loss = float(method(data)["loss"])
    method.eval()
    answer = method.predict(data["image"]).numpy()
    method.train()
    static = paddle.jit.to_static(method)
    np.testing.assert_allclose(float(static(data)["loss"]), loss, rtol=1e-5)
    method.eval()
    np.testing.assert_allclose(method.predict(data["image"]).numpy(), answer, atol=1e-6)
