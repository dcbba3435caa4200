# SPDX-License-Identifier: Apache-2.0
"""What every registered backbone promises beyond one forward pass: it trains, and its weights run at other sizes."""

from __future__ import annotations

import re

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

import passl
from passl.catalogue import FAMILIES, config_path, model_configs
from passl.data.datasets import FashionMNIST
from passl.modeling.backbones import BACKBONES
from passl.modeling.layers import DropPath
from passl.utils.config import get_config
from passl.utils.errors import CheckpointError
from passl.weights import load_weights
from tests.modeling.backbones.test_contract import TINY, build, every_backbone, images, trainable

STEPS, BATCHES, BATCH = 20, 5, 8
PYRAMID = {"sr_ratios": [4, 2, 1, 1]}  # the usual 8, 4, 2, 1 leave one key in each stage at 32 pixels
TRAINED = {"PVT": PYRAMID, "PVTv2": PYRAMID}
# Parameters whose gradient is zero, as a pattern, and why.
WITHOUT_GRADIENT = {
    # A bias of all keys adds the same to all logits of a query, and softmax takes it out; so does a bias of the logits.
    "CLIPResNet": r"attn_pool\.k\.bias",
    "CaiT": r"blocks\.\d\.attn\.proj_l\.bias|blocks_token_only\.\d\.attn\.k\.bias",
    "XCiT": r"cls_attn_blocks\.\d\.attn\.k\.bias",
    # The same; beside a class token, which bypasses the convolution, conv_proj_k's bias does count.  The last block's
    # patches are read as keys and values only.
    "CvT": r"stage\d\.blocks\.\d\.attn\.proj_k\.bias|stage[01]\.blocks\.\d\.attn\.conv_proj_k\.bn\.bias"
    r"|stage2\.blocks\.1\.attn\.conv_proj_q\..*",
    # What reads a block without a shortcut is a 1x1 convolution with BatchNorm, which takes out that block's last bias.
    "EfficientNet": r"blocks\.0\.0\.bn2\.bias|blocks\.[1-6]\.0\.bn3\.bias",
    # The stem's last bias stays in the residual stream, and all that read it are linear with BatchNorm, which takes it
    # out.  The last stage has one place at 32 pixels: softmax of one logit is 1.
    "LeViT": r"stem\.conv4\.bn\.bias|stages\.1\.blocks\.\d\.attn\.attention_biases",
    # The same for all channels of a patch: the norms that follow are over the channels and take it out.
    "Mixer": r"blocks\.\d\.mlp_tokens\.fc2\.bias",
    # One place in the last stage at 32 pixels.
    "PVTv2": r"stages\.3\.blocks\.\d\.attn\.q\.(weight|bias)",
}

RATE = 0.3
# Stochastic depth of each block in order, where it does not rise linearly from 0 in the first to RATE in the last, and
# what else the backbone is built with.
DROP_PATHS = {
    "CaiT": ([RATE, RATE, 0, 0], {}),  # none in class attention
    "ConvNeXt": (np.linspace(0, RATE, 7), {}),  # its num_layers counts groups of blocks
    "CvT": ([0, 0, 0, 0, 0, RATE], {"depths": [2, 2, 2]}),  # in the last stage only
    # Block i of 16 has i / 16 of the rate; the first blocks of later stages have no shortcut.
    "EfficientNet": ([RATE * i / 16 for i in (0, 2, 4, 6, 7, 9, 10, 12, 13, 14)], {"depth_factor": 1.0}),
    "LeViT": ([RATE] * 4, {}),  # with the subsampling block
    "ResMLP": ([RATE] * 3, {}),
    "XCiT": ([RATE] * 2, {}),
}
WITHOUT_DROP_PATH = ["CLIPResNet", "ResNet", "StridedCNN"]


def clothes() -> tuple[np.ndarray, np.ndarray]:
    """Pictures [BATCHES, BATCH, 3, 32, 32], about normalised, and their classes."""
    data = FashionMNIST()
    order = np.random.RandomState(0).permutation(len(data))[: BATCHES * BATCH].reshape(BATCHES, BATCH)
    pictures = np.stack([[data[i]["image"] for i in batch] for batch in order]) / 255.0
    pictures = np.pad(pictures, [(0, 0), (0, 0), (0, 0), (2, 2), (2, 2)])
    return ((pictures - 0.29) / 0.35).astype("float32"), data.labels()[order]


def takes(name: str, argument: str) -> bool:
    return argument in BACKBONES.parameters(name)


@every_backbone
def test_it_learns_real_images_and_every_parameter_takes_part(name):
    drop_path = {"drop_path_rate": 0.1} if takes(name, "drop_path_rate") else {}
    model = build(name, **TRAINED.get(name, {}), **drop_path)
    head = paddle.nn.Linear(model.num_features, 10)
    parameters = trainable(model)
    optimizer = paddle.optimizer.AdamW(3e-3, parameters=[*parameters.values(), *head.parameters()])
    losses, largest = [], dict.fromkeys(parameters, 0.0)
    for _, (pictures, labels) in zip(range(STEPS), list(zip(*clothes())) * (STEPS // BATCHES)):
        loss = F.cross_entropy(head(model(paddle.to_tensor(pictures))), paddle.to_tensor(labels))
        loss.backward()
        for parameter, p in parameters.items():
            gradient = 0.0 if p.grad is None else float(p.grad.abs().max())
            largest[parameter] = np.maximum(largest[parameter], gradient)  # NaN stays
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    assert np.isfinite([*losses, *largest.values()]).all()
    assert np.mean(losses[-BATCHES:]) < 0.9 * np.mean(losses[:BATCHES])  # the same pictures
    legitimate = WITHOUT_GRADIENT.get(name, "none")
    assert without_gradient(largest) == {n for n in parameters if re.fullmatch(legitimate, n)}


def without_gradient(largest: dict[str, float]) -> set[str]:
    """Names whose gradient is nothing beside their layer's largest: rounding errors of what cancels out."""
    layers: dict[str, float] = {}
    for name, value in largest.items():
        layer = name.rpartition(".")[0]
        layers[layer] = max(layers.get(layer, 0.0), value)
    return {name for name, value in largest.items() if value <= 1e-4 * layers[name.rpartition(".")[0]]}


@pytest.mark.parametrize(
    ("name", "rates", "arguments"),
    [
        *(pytest.param(n, *DROP_PATHS.get(n, (None, {})), id=n) for n in TINY if n not in WITHOUT_DROP_PATH),
        pytest.param("ViT", [RATE] * 3, {"drop_path_rule": "constant"}, id="DeiT III"),
    ],
)
def test_stochastic_depth_follows_the_familys_rule(name, rates, arguments):
    model = build(name, drop_path_rate=RATE, **arguments)
    run: dict[int, float] = {}  # in the order of the first call
    for layer in model.sublayers():
        if isinstance(layer, DropPath):
            layer.register_forward_pre_hook(lambda layer, _: run.update({id(layer): layer.drop_prob}))
    model(images())
    expected = np.linspace(0, RATE, model.num_layers) if rates is None else rates
    np.testing.assert_allclose(list(run.values()), expected, rtol=1e-6)


def test_backbones_without_stochastic_depth_do_not_take_a_rate():
    assert [name for name in TINY if not takes(name, "drop_path_rate")] == WITHOUT_DROP_PATH


@every_backbone
def test_layer_ids_rise_on_the_way_through_the_network(name):
    model = build(name)
    order: list[int] = []
    for prefix, layer in model.named_sublayers():
        ids = {model.layer_id(f"{prefix}.{n}") for n, _ in layer.named_parameters(include_sublayers=False)}
        layer.register_forward_pre_hook(lambda _, inputs, ids=ids: order.extend(ids))
    model(images())
    assert order == sorted(order)


TIED_TO_ITS_SIZE = ["Mixer", "ResMLP", "StridedCNN", "gMLP"]  # weights for each patch or place


def at_size(name: str, size):
    return build(name, img_size=size) if takes(name, "img_size") else build(name)


def shifted_state(model) -> dict[str, np.ndarray]:
    """The model's weights, each a little off, so that one which stays as it was shows."""
    return {name: (1.1 * tensor.numpy() + 0.01).astype("float32") for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("size", [96, (128, 96)], ids=["96", "128x96"])
@pytest.mark.parametrize("name", [name for name in TINY if name not in TIED_TO_ITS_SIZE])
def test_weights_of_64_pixels_run_at_larger_and_oblong_sizes(name, size):
    arrays, model = shifted_state(at_size(name, 64)), at_size(name, size)
    report = load_weights(model, arrays)
    state = model.state_dict()
    resized = {n for n, array in arrays.items() if array.shape != tuple(state[n].shape)}
    assert {n for n, *_ in report.resized} == resized
    assert report.matched == list(state)
    assert not report.unexpected
    assert all((state[n].numpy() == array).all() for n, array in arrays.items() if n not in resized)
    model.eval()
    features = model(images(1, *(size if isinstance(size, tuple) else (size, size))))
    assert features.shape == [1, model.num_features]
    assert bool(paddle.isfinite(features).all())


@pytest.mark.parametrize("name", TIED_TO_ITS_SIZE)
def test_weights_that_are_tied_to_their_size_are_refused_by_name(name):
    arrays, model = shifted_state(at_size(name, 64)), at_size(name, 96)
    with pytest.raises(
        CheckpointError, match=r"wrong shape +\d+  \S+ [\dx]+, model [\dx]+(.|\n)*do not fit(.|\n)*img_size"
    ):
        load_weights(model, arrays)


def smallest(family: str) -> str:
    """The family's variant with the fewest parameters, which stand in the header of its YAML."""
    count = {
        name: int(re.search(r"^# parameters: ([\d,]+)$", path.read_text(), re.MULTILINE)[1].replace(",", ""))
        for name, path in model_configs().items()
        if path.parent.name == family
    }
    return min(count, key=count.get)


LARGER = {"dinov2": (392, (252, 196))}  # patches of 14 pixels
TIED_FAMILIES = ["gmlp", "mixer", "resmlp"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_224_checkpoint_runs_at_384_and_at_256x192(family):
    variant = smallest(family)
    backbone = get_config(config_path(variant)).model.architecture.name

    def at(size, **arguments):
        size = {"img_size": size} if takes(backbone, "img_size") else {}
        return passl.create_model(variant, **size, **arguments)

    square, oblong = LARGER.get(family, (384, (256, 192)))
    arrays = {name: tensor.numpy() for name, tensor in at(224).state_dict().items()}
    for height, width in ((square, square), oblong):
        wide = {"window_size": 12} if backbone == "Swin" and height == square else {}  # as in the published variants
        model = at((height, width), **wide)
        if family in TIED_FAMILIES:
            with pytest.raises(CheckpointError, match="do not fit"):
                load_weights(model, arrays)
            continue
        report = load_weights(model, arrays)
        assert report.matched == list(model.state_dict())
        model.eval()
        logits = model(images(1, height, width))
        assert logits.shape == [1, model.num_classes]
        assert bool(paddle.isfinite(logits).all())
