# SPDX-License-Identifier: Apache-2.0
"""What every registered backbone promises.  A new backbone adds its smallest arguments to TINY."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from paddle.static import InputSpec

from passl import runtime
from passl.modeling.backbones import BACKBONES, build_backbone
from passl.modeling.heads import build_head
from passl.modeling.model import Model

TINY_MLP = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 3}
TINY_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 3, "num_heads": 4}
TINY_PYRAMID = {"img_size": 32, "embed_dims": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_heads": [1, 2, 3, 4]}
TINY = {
    "BEiT": TINY_VIT,
    "CLIPResNet": {"img_size": 32, "depths": [1, 1, 2, 1], "width": 8},
    "CaiT": {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4, "init_scale": 0.1},
    "ConvNeXt": {"depths": [1, 1, 4, 1], "dims": [8, 16, 24, 32]},
    "ConvViT": {"img_size": 32, "embed_dims": [8, 16, 24], "depths": [1, 1, 2], "num_heads": 3},
    "CvT": {"dims": [8, 16, 32], "depths": [1, 1, 2], "num_heads": [1, 2, 4]},
    "EfficientNet": {"width_factor": 0.25, "depth_factor": 0.25},
    "LVViT": {**TINY_VIT, "skip_lam": 1.0, "stem_dim": 16},
    "LeViT": {"img_size": 32, "embed_dims": [32, 48], "key_dim": 16, "depths": [1, 2], "num_heads": [2, 3]},
    "Mixer": {**TINY_MLP, "tokens_mlp_dim": 16, "channels_mlp_dim": 64},
    "PVT": TINY_PYRAMID,
    "PVTv2": {k: v for k, v in TINY_PYRAMID.items() if k != "img_size"},
    "RegNetY": {"depth": 4, "initial_width": 8, "slope": 8, "quantization": 2, "group_width": 8},
    "ResMLP": {**TINY_MLP, "init_scale": 0.1},
    "ResNet": {"depth": 18, "width": 8, "stem": "cifar"},
    "StridedCNN": {"img_size": 32, "widths": [8, 8, 16]},
    "Swin": {"img_size": 32, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    "SwinV2": {"img_size": 32, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    "T2TViT": {"img_size": 32, "embed_dim": 32, "depth": 3, "num_heads": 4, "token_dim": 16},
    "ViT": TINY_VIT,
    "XCiT": {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4},
    "gMLP": TINY_MLP,
}
TOKEN_BACKBONES = ["BEiT", "CaiT", "ViT"]
PATCH_BACKBONES = [*TOKEN_BACKBONES, "LVViT", "Mixer", "ResMLP", "T2TViT", "gMLP"]  # the last five need all patches
SIDE = 32
CLASSIFIERS = [  # backbone, its arguments, its head as in the catalogue
    *((name, {}, "ClsHead") for name in TINY if name not in ("LVViT", "LeViT")),
    ("LVViT", {"return_tokens": True}, "TokenLabelHead"),
    ("LeViT", {}, "LeViTHead"),
    ("ViT", {"distilled": True}, "DistilledClsHead"),
]

every_backbone = pytest.mark.parametrize("name", list(TINY))
every_token_backbone = pytest.mark.parametrize("name", TOKEN_BACKBONES)
every_patch_backbone = pytest.mark.parametrize("name", PATCH_BACKBONES)
every_classifier = pytest.mark.parametrize(
    ("name", "arguments", "head"), CLASSIFIERS, ids=[f"{name}-{head}" for name, _, head in CLASSIFIERS]
)


def build(name: str, **arguments):
    paddle.seed(0)
    return build_backbone({"name": name, **TINY[name], **arguments})


def build_classifier(name: str, arguments: dict, head: str) -> Model:
    backbone = build(name, **arguments)
    return Model(backbone, build_head({"name": head, "in_dim": backbone.num_features, "num_classes": 5}))


@pytest.fixture
def quick_tracing(monkeypatch):
    """Leave out what takes a third of the time: a map from the graph's lines to ours for Paddle's error messages."""
    name = "paddle.jit.dy2static.program_translator.create_and_update_origin_info_map"
    monkeypatch.setattr(name, lambda *_: None, raising=False)


def images(batch: int = 2, height: int = SIDE, width: int = SIDE) -> paddle.Tensor:
    return paddle.to_tensor(np.random.RandomState(1).standard_normal((batch, 3, height, width)).astype("float32"))


def trainable(model) -> dict[str, paddle.Tensor]:
    return {name: p for name, p in model.named_parameters() if not p.stop_gradient}


def difference(a: paddle.Tensor, b: paddle.Tensor) -> float:
    return float((a - b).abs().max())


def test_every_registered_backbone_is_tested_here():
    assert set(TINY) == set(BACKBONES)


@every_backbone
def test_forward_gives_pooled_features_of_the_promised_width(name):
    model = build(name)
    assert model(images()).shape == [2, model.num_features]


@every_backbone
def test_forward_features_gives_tokens_or_a_map(name):
    model = build(name)
    features = model.forward_features(images())
    if hasattr(model, "num_prefix_tokens"):
        assert features.shape == [2, model.num_prefix_tokens + model.patch_embed.num_patches, model.num_features]
    else:
        assert features.ndim == 4
        assert features.shape[0] == 2


@every_backbone
def test_the_last_intermediate_is_forward_features_as_a_map(name):
    model = build(name)
    model.eval()
    first, last, again = model.forward_intermediates(images(), [0, -1, 0])
    features = model.forward_features(images())
    if hasattr(model, "num_prefix_tokens"):
        assert first.shape == last.shape
        last = last.flatten(2).transpose([0, 2, 1])
        features = features[:, model.num_prefix_tokens :]
    assert difference(last, features) < 1e-6
    assert difference(first, again) == 0


@every_backbone
def test_blocks_after_the_last_asked_for_are_not_run(name):
    model = build(name)
    run = set()
    for prefix, layer in model.named_sublayers():
        ids = {model.layer_id(f"{prefix}.{n}") for n, _ in layer.named_parameters(include_sublayers=False)}
        layer.register_forward_pre_hook(lambda _, inputs, ids=ids: run.update(ids))
    model.forward_intermediates(images(), [0])
    run_for_the_first = set(run)
    model.forward_intermediates(images(), [1, 0])
    assert run_for_the_first < run


@every_backbone
def test_an_index_beyond_the_blocks_is_refused(name):
    with pytest.raises(ValueError, match="indices"):
        build(name).forward_intermediates(images(), [99])


@every_backbone
def test_layer_ids_number_embeddings_blocks_and_norm(name):
    model = build(name)
    ids = {model.layer_id(n) for n in trainable(model)}
    assert ids >= set(range(model.num_layers + 1))
    assert ids <= set(range(model.num_layers + 2))


@every_backbone
def test_names_without_weight_decay_exist(name):
    model = build(name)
    assert model.no_weight_decay() <= set(trainable(model))


@every_backbone
def test_every_parameter_gets_a_gradient(name):
    model = build(name)
    features = model(images())
    (features * paddle.randn(features.shape)).sum().backward()
    assert [n for n, p in trainable(model).items() if p.grad is None] == []


@every_backbone
def test_the_same_seed_gives_the_same_weights(name):
    first, second = build(name).state_dict(), build(name).state_dict()
    assert list(first) == list(second)
    assert all(bool((first[n] == second[n]).all()) for n in first)


@every_backbone
def test_evaluation_does_not_depend_on_the_rest_of_the_batch(name):
    model = build(name)
    model.eval()
    assert difference(model(images(3))[:1], model(images(3)[:1])) < 1e-5


@every_backbone
def test_the_static_graph_gives_the_same_features_and_gradients(name, quick_tracing):
    model, eager = runtime.compile(build(name)), build(name)
    eager.set_state_dict(model.state_dict())
    for module in (model, eager):
        module.eval()
    assert difference(model(images()), eager(images())) < 1e-5  # first: a graph must not lose gradients by it
    for module in (model, eager):
        module.train()
    found, gradients = gradients_of(model), gradients_of(eager)
    assert not model.forward.failed  # else it was eager too
    assert found.keys() == gradients.keys()
    largest = max(np.abs(value).max() for value in gradients.values())
    for parameter, value in gradients.items():
        np.testing.assert_allclose(found[parameter], value, rtol=1e-3, atol=1e-5 * largest, err_msg=parameter)


def gradients_of(model):
    """Gradients of the features' squares, by name of the parameter; those without one are left out."""
    model(images()).square().sum().backward()
    gradients = {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
    model.clear_gradients()
    return gradients


@every_classifier
def test_an_exported_classifier_takes_any_batch_size(name, arguments, head, tmp_path, quick_tracing):
    shallow = {"depth": 1} if {"depth", "embed_dim"} <= set(TINY[name]) else {}  # every layer takes time to trace
    model = build_classifier(name, {**arguments, **shallow}, head)
    model.eval()
    expected = {batch: model(images(batch)) for batch in (1, 3)}
    paddle.jit.save(model, str(tmp_path / "model"), [InputSpec([None, 3, SIDE, SIDE], "float32")])
    exported = paddle.jit.load(str(tmp_path / "model"))
    for batch, logits in expected.items():
        assert difference(exported(images(batch)), logits) < 1e-5 * float(logits.abs().max())


@every_classifier
def test_the_classifier_can_be_replaced_and_left_out(name, arguments, head):
    model = build_classifier(name, arguments, head)
    model.eval()
    features = model.architecture(images())
    for num_classes, width in ((5, 5), (7, 7), (0, model.num_features)):
        if num_classes != model.num_classes:
            model.reset_classifier(num_classes)
        assert (model.num_classes, model(images()).shape) == (num_classes, [2, width])
    assert difference(model.architecture(images()), features) == 0
    if features.ndim == 2:  # else the head chooses among tokens
        assert difference(model(images()), features) == 0


@every_token_backbone
def test_kept_patches_carry_their_own_positions(name):
    model = build(name)
    model.eval()
    num_prefix, num_patches = model.num_prefix_tokens, model.patch_embed.num_patches
    order = np.random.RandomState(0).permutation(num_patches)
    tokens = model.forward_features(images())
    shuffled = model.forward_features(images(), keep=paddle.to_tensor(np.stack([order] * 2)))
    assert difference(shuffled[:, :num_prefix], tokens[:, :num_prefix]) < 1e-5
    assert difference(shuffled[:, num_prefix:], tokens[:, num_prefix:].index_select(paddle.to_tensor(order), 1)) < 1e-5


@every_token_backbone
def test_patches_that_are_not_kept_have_no_influence(name):
    model = build(name)
    model.eval()
    keep = paddle.to_tensor([[0, 1, 2]])  # of the first row of patches; those below are changed
    x = images(1)
    changed = x.clone()
    changed[:, :, SIDE // 2 :] = 0.0
    tokens = model.forward_features(x, keep=keep)
    assert tokens.shape[1] == model.num_prefix_tokens + 3
    assert difference(tokens, model.forward_features(changed, keep=keep)) == 0


@every_patch_backbone
def test_images_need_not_be_square(name):
    model = build(name, img_size=(32, 16))
    assert model(images(2, 32, 16)).shape == [2, model.num_features]


@every_patch_backbone
def test_a_wrong_image_size_is_explained(name):
    with pytest.raises(ValueError, match="img_size=64"):
        build(name)(images(2, 64, 64))


@every_patch_backbone
def test_a_size_that_patches_do_not_divide_is_refused(name):
    with pytest.raises(ValueError, match="divisible by patch_size"):
        build(name, img_size=36)
