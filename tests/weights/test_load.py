# SPDX-License-Identifier: Apache-2.0
"""Weights into models: what is recognised, what is reported, what is refused."""

import numpy as np
import paddle
import pytest

from passl.methods import Classifier
from passl.modeling.backbones import CaiT, ViT
from passl.modeling.heads import ClsHead, MLPHead
from passl.modeling.model import Model
from passl.utils.errors import CheckpointError
from passl.weights import load_weights, save_weights
from tests.weights.models import as_torch, cait, logits, randomise, resnet, state
from tests.weights.torch_writer import contiguous, write_legacy, write_zip

MODELS = [(cait, "head"), (resnet, "fc")]


def fresh(build, **changes):
    """A model with other numbers than ``build()``'s."""
    model = build(**changes)
    for tensor in model.state_dict().values():
        tensor.set_value(paddle.full_like(tensor, 0.5))
    return model


def assert_same(model, expected):
    assert state(model).keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(state(model)[name], array, err_msg=name)


@pytest.mark.parametrize("build, classifier", MODELS)
@pytest.mark.parametrize(
    "prefix", ["", "module.", "state_dict.", "model.module.", "state_dict_ema.", "teacher.backbone.", "_orig_mod."]
)
def test_every_tensor_of_a_timm_dict_arrives_turned_and_renamed(build, classifier, prefix):
    source, model = build(), fresh(build)
    report = load_weights(model, {prefix + name: array for name, array in as_torch(source, classifier).items()})
    assert_same(model, state(source))
    assert report.prefix == prefix and len(report.matched) == len(state(model))
    assert not (report.missing or report.unexpected or report.fresh_head or report.resized or report.left_out)
    np.testing.assert_array_equal(logits(model), logits(source))


@pytest.mark.parametrize("write", [write_zip, write_legacy])
@pytest.mark.parametrize("build, classifier", MODELS)
def test_a_pth_file_loads(tmp_path, write, build, classifier):
    source, model = build(), fresh(build)
    tensors = {name: contiguous(str(i), array) for i, (name, array) in enumerate(as_torch(source, classifier).items())}
    write(tmp_path / "a.pth", {"model": tensors, "epoch": 3})
    report = load_weights(model, tmp_path / "a.pth")
    assert_same(model, state(source))
    assert "prefix 'model.'" in str(report) and "timm" in str(report)


@pytest.mark.parametrize("build, classifier", MODELS)
def test_our_own_files_load_into_models_methods_and_bare_backbones(tmp_path, build, classifier):
    source = build()
    save_weights(source, tmp_path / "a.safetensors")
    for model in (fresh(build), Classifier(fresh(build).architecture, fresh(build).head)):
        assert load_weights(model, tmp_path / "a.safetensors").layout == "passl"
        assert_same(model, state(source))
    backbone = fresh(build).architecture
    report = load_weights(backbone, tmp_path / "a.safetensors")
    assert_same(backbone, state(source.architecture))
    assert report.unexpected == ["head.fc.bias", "head.fc.weight"]


@pytest.mark.parametrize("suffix", ["pdparams", "dict"])
@pytest.mark.parametrize("build, classifier", MODELS)
def test_paddle_files_are_not_turned(tmp_path, build, classifier, suffix):
    source, model = build(), fresh(build)
    if suffix == "dict":
        load_weights(model, source.state_dict())
    else:  # PASSL 1: backbone.* and head.fc_cls.*
        old = {
            name.replace("architecture.", "backbone.").replace("head.fc", "head.fc_cls"): t
            for name, t in source.state_dict().items()
        }
        paddle.save(old, str(tmp_path / "a.pdparams"))
        load_weights(model, tmp_path / "a.pdparams")
    assert_same(model, state(source))


def test_square_weights_without_a_bias_follow_the_kind_of_file():
    """Nothing in the arrays tells [in, out] from [out, in] here; other tensors of the file do."""
    source = cait()
    arrays = as_torch(source, "head")
    ours = {name.replace("architecture.", ""): array for name, array in state(source).items()}
    assert not np.array_equal(arrays["blocks.0.attn.proj.weight"], ours["blocks.0.attn.proj.weight"])
    for given in (arrays, ours):
        backbone = fresh(cait).architecture
        load_weights(backbone, given)
        assert_same(backbone, state(source.architecture))


def test_contradicting_orientations_are_an_error():
    arrays = as_torch(cait(), "head")
    arrays["blocks.0.mlp.fc1.weight"] = arrays["blocks.0.mlp.fc1.weight"].T
    with pytest.raises(CheckpointError, match=r"some linear weights are stored as \[in, out\]"):
        load_weights(fresh(cait), arrays)


def test_an_explicit_layout_that_the_weights_contradict_is_an_error():
    with pytest.raises(CheckpointError, match=r"these are the other way round"):
        load_weights(fresh(cait), as_torch(cait(), "head"), layout="passl")
    with pytest.raises(CheckpointError, match="did you mean 'timm'"):
        load_weights(fresh(cait), as_torch(cait(), "head"), layout="tim")


def test_another_number_of_classes_keeps_the_whole_fresh_classifier():
    model = fresh(cait, num_classes=7)
    before = state(model)
    report = load_weights(model, as_torch(cait(num_classes=5), "head"))
    assert [name for name, _ in report.fresh_head] == ["head.fc.weight", "head.fc.bias"]
    assert "file has 12x5" in str(report)
    for name in ("head.fc.weight", "head.fc.bias"):
        np.testing.assert_array_equal(state(model)[name], before[name])


def test_half_a_classifier_is_not_loaded():
    model, arrays = fresh(cait), as_torch(cait(), "head")
    before = state(model)
    del arrays["head.weight"]
    report = load_weights(model, arrays)
    assert {name for name, _ in report.fresh_head} == {"head.fc.weight", "head.fc.bias"}
    np.testing.assert_array_equal(state(model)["head.fc.bias"], before["head.fc.bias"])


def test_positions_are_resized_and_reported():
    source, model = cait(img_size=32), fresh(cait, img_size=48)
    report = load_weights(model, as_torch(source, "head"))
    assert report.resized == [("architecture.pos_embed", (1, 16, 12), (1, 36, 12))]
    assert "1x16x12 -> 1x36x12" in str(report)
    assert abs(state(model)["architecture.pos_embed"].mean() - state(source)["architecture.pos_embed"].mean()) < 0.05


def test_a_missing_backbone_tensor_is_an_error_and_changes_nothing():
    model, arrays = fresh(cait), as_torch(cait(), "head")
    before = state(model)
    del arrays["blocks.1.norm1.bias"]
    with pytest.raises(CheckpointError, match=r"missing +1 +architecture\.blocks\.1\.norm1\.bias"):
        load_weights(model, arrays)
    assert_same(model, before)
    report = load_weights(model, arrays, strict=False)
    assert report.missing == ["architecture.blocks.1.norm1.bias"]


def test_a_wrong_shape_is_an_error_never_skipped_silently():
    model, arrays = fresh(cait), as_torch(cait(), "head")
    arrays["blocks.1.norm1.bias"] = np.ones(13, np.float32)
    with pytest.raises(CheckpointError, match=r"wrong shape +1 +architecture\.blocks\.1\.norm1\.bias 13, model 12"):
        load_weights(model, arrays)
    report = load_weights(model, arrays, strict=False)
    assert report.mismatched == [("architecture.blocks.1.norm1.bias", (13,), (12,))]
    assert "wrong shape" in str(report)


def test_the_wrong_model_is_named_with_names_of_both_sides():
    with pytest.raises(CheckpointError, match=r"is it the right model\?.*patch_embed.*architecture\.conv1"):
        load_weights(fresh(resnet), dict(sorted(as_torch(cait(), "head").items(), reverse=True)))


def test_a_distilled_file_in_a_plain_model_is_explained():
    arrays = as_torch(cait(), "head")
    arrays["dist_token"] = arrays["cls_token"]
    arrays["pos_embed"] = np.ones((1, 18, 12), np.float32)
    with pytest.raises(CheckpointError, match="distilled"):
        load_weights(fresh(cait), arrays)


def test_unexpected_tensors_are_reported_and_counters_are_not():
    arrays = as_torch(resnet(), "fc")
    arrays["layer9.0.conv1.weight"] = np.ones((1, 1, 1, 1), np.float32)
    report = load_weights(fresh(resnet), arrays)
    assert report.unexpected == ["layer9.0.conv1.weight"]


def test_the_teacher_is_taken_before_the_student_and_a_prefix_overrules():
    teacher, student = cait(), fresh(cait)
    arrays = {f"student.{n}": a for n, a in as_torch(student, "head").items()}
    arrays.update({f"teacher.{n}": a for n, a in as_torch(teacher, "head").items()})
    model = fresh(cait)
    report = load_weights(model, arrays)
    assert_same(model, state(teacher))
    assert report.prefix == "teacher." and len(report.left_out) == len(arrays) // 2
    for prefix in ("student.", "student"):
        load_weights(model, arrays, prefix=prefix)
        assert_same(model, state(student))
    with pytest.raises(CheckpointError, match="below 'nobody'"):
        load_weights(model, arrays, prefix="nobody")


def test_an_official_moco_file_fills_the_backbone_and_leaves_the_rest_in_the_report():
    source, model = resnet(), fresh(resnet)
    arrays = {f"state_dict.module.encoder_q.{n}": a for n, a in as_torch(source, "fc.2").items()}
    arrays["state_dict.module.encoder_q.fc.0.weight"] = np.ones((32, 32), np.float32)
    arrays["state_dict.module.queue"] = np.ones((4, 8), np.float32)
    report = load_weights(model, arrays)
    assert report.prefix == "state_dict.module.encoder_q."
    assert_same(model.architecture, state(source.architecture))
    assert len(report.unexpected) == 3 and report.left_out == ["state_dict.module.queue"]
    assert [why for _, why in report.fresh_head] == ["not in the file"] * 2


class Pretrainer(paddle.nn.Layer):
    def __init__(self, backbone):
        super().__init__()
        self.architecture, self.projector = backbone, MLPHead(12, [8], 4)


def test_a_pretrained_backbone_moves_into_a_classifier_and_the_projector_stays_out(tmp_path):
    method = randomise(Pretrainer(cait().architecture))
    save_weights(method, tmp_path / "ssl.safetensors")
    model = fresh(cait)
    report = load_weights(model, tmp_path / "ssl.safetensors")
    assert_same(model.architecture, state(method.architecture))
    assert report.left_out and all(name.startswith("projector.") for name in report.left_out)


def test_a_methods_own_file_restores_its_projector_even_at_another_image_size(tmp_path):
    method = randomise(Pretrainer(cait().architecture))
    save_weights(method, tmp_path / "ssl.safetensors")
    for size in (32, 48):
        other = randomise(Pretrainer(fresh(cait, img_size=size).architecture))
        other.projector.eval()
        for tensor in other.state_dict().values():
            tensor.set_value(paddle.zeros_like(tensor))
        report = load_weights(other, tmp_path / "ssl.safetensors")
        assert_same(other.projector, state(method.projector))
        assert not report.untouched and not report.left_out


def test_a_supervised_file_starts_a_method_whose_projector_stays_as_it_is():
    method = Pretrainer(fresh(cait).architecture)
    before = state(method.projector)
    source = cait()
    report = load_weights(method, as_torch(source, "head"))
    assert_same(method.architecture, state(source.architecture))
    assert_same(method.projector, before)
    assert report.untouched == [f"projector.{name}" for name in before]


def test_a_backbone_may_reshape_arrays_itself():
    class Doubling(CaiT):
        def adapt_weights(self, arrays):
            return {**arrays, "cls_token": np.repeat(arrays["cls_token"], 2, axis=-1)}

    source = cait()
    arrays = as_torch(source, "head")
    arrays["cls_token"] = arrays["cls_token"][..., ::2]
    model = Doubling(32, 8, 3, 12, 2, 2, depth_token_only=1)
    report = load_weights(model, arrays)
    assert report.resized == [("cls_token", (1, 1, 6), (1, 1, 12))]


def test_other_number_types_become_the_models():
    arrays = {name: array.astype(np.float16) for name, array in as_torch(cait(), "head").items()}
    model = fresh(cait)
    model.architecture.to(dtype="bfloat16")
    load_weights(model, arrays)
    assert model.architecture.cls_token.dtype == paddle.bfloat16 and model.head.fc.weight.dtype == paddle.float32
    expected = arrays["cls_token"].astype(np.float32)
    np.testing.assert_allclose(model.architecture.cls_token.astype("float32").numpy(), expected, rtol=2**-8)


def test_a_head_without_classes_ignores_the_files_classifier():
    backbone = fresh(cait).architecture
    from passl.modeling.model import Model

    report = load_weights(Model(backbone, ClsHead(12, 0)), as_torch(cait(), "head"))
    assert report.unexpected == ["head.fc.bias", "head.fc.weight"]


def test_weights_of_a_wider_variant_are_said_to_be_of_another_variant():
    wide = Model(ViT(32, 8, embed_dim=24, depth=2, num_heads=2), ClsHead(24, 5))
    narrow = Model(ViT(32, 8, embed_dim=12, depth=2, num_heads=2), ClsHead(12, 5))
    with pytest.raises(CheckpointError, match="right variant of the model"):
        load_weights(narrow, as_torch(wide, "head"))
