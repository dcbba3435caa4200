# SPDX-License-Identifier: Apache-2.0
"""Small models, and their weights as PyTorch libraries would store them, written out by hand."""

from __future__ import annotations

import numpy as np
import paddle
from paddle import nn

from passl.modeling.backbones import CaiT, ResNet
from passl.modeling.heads import ClsHead
from passl.modeling.model import Model


def cait(num_classes=5, img_size=32) -> Model:
    backbone = CaiT(img_size, patch_size=8, embed_dim=12, depth=2, num_heads=2, depth_token_only=1)
    return randomise(Model(backbone, ClsHead(12, num_classes)))


def resnet(num_classes=5) -> Model:
    backbone = ResNet(18, width=4)
    return randomise(Model(backbone, ClsHead(backbone.num_features, num_classes)))


def randomise(model: nn.Layer) -> nn.Layer:
    """Other numbers everywhere, so that a tensor that was not set, or set twice, shows."""
    for i, tensor in enumerate(model.state_dict().values()):
        values = np.random.RandomState(i).uniform(0.1, 1.0, tuple(tensor.shape))
        tensor.set_value(values.astype(np.float32))
    model.eval()
    return model


def as_torch(model: Model, classifier: str) -> dict[str, np.ndarray]:
    """The model's weights under timm's names: linear weights [out, in], BatchNorm with a counter."""
    linear = {f"{name}.weight" for name, layer in model.named_sublayers() if isinstance(layer, nn.Linear)}
    arrays = {}
    for name, tensor in model.state_dict().items():
        array = tensor.numpy()
        theirs = name.replace("architecture.", "").replace("head.fc", classifier)
        theirs = theirs.replace("._mean", ".running_mean").replace("._variance", ".running_var")
        arrays[theirs] = np.ascontiguousarray(array.T) if name in linear else array
        if theirs.endswith(".running_var"):
            arrays[theirs.replace("running_var", "num_batches_tracked")] = np.array(17)
    return arrays


def state(model: nn.Layer) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def logits(model: nn.Layer) -> np.ndarray:
    size = 32
    images = paddle.to_tensor(np.random.RandomState(0).standard_normal((2, 3, size, size)).astype(np.float32))
    return model(images).numpy()
