# SPDX-License-Identifier: Apache-2.0
"""Weight files written from files and models."""

import numpy as np
import pytest

from passl.utils.errors import CheckpointError
from passl.weights import Card, convert_file, load_weights, read_arrays, read_card, save_weights
from passl.weights.safetensors import read_metadata, write_safetensors
from tests.weights.models import as_torch, cait, logits, resnet, state
from tests.weights.torch_writer import contiguous, write_zip


@pytest.mark.parametrize("build, classifier", [(cait, "head"), (resnet, "fc")])
def test_timm_to_ours_to_timm_returns_the_same_bytes(tmp_path, build, classifier):
    model = build()
    source = as_torch(model, classifier)
    with open(tmp_path / "timm.safetensors", "wb") as stream:
        write_safetensors(stream, source, {"format": "pt"})
    convert_file(tmp_path / "timm.safetensors", tmp_path / "ours.safetensors")
    convert_file(tmp_path / "ours.safetensors", tmp_path / "back.safetensors", to="timm")
    back = read_arrays(tmp_path / "back.safetensors")
    assert back.keys() == source.keys()
    for name, array in source.items():
        assert back[name].dtype == array.dtype and back[name].tobytes() == array.tobytes(), name
    ours = read_arrays(tmp_path / "ours.safetensors")
    for name, array in state(model).items():
        np.testing.assert_array_equal(ours[name], array)


def test_a_pth_becomes_a_file_that_loads_without_any_finding(tmp_path):
    model, source = cait(), cait()
    for tensor in model.state_dict().values():
        tensor.set_value(np.zeros(tensor.shape, np.float32))
    tensors = {f"module.{n}": contiguous(str(i), a) for i, (n, a) in enumerate(as_torch(source, "head").items())}
    write_zip(tmp_path / "a.pth", {"model": tensors})
    done = convert_file(tmp_path / "a.pth", tmp_path / "a.safetensors")
    assert done.prefix == "model.module."
    metadata = read_metadata(tmp_path / "a.safetensors")
    assert metadata == {"format": "passl", "source": "a.pth", "layout": "timm"}
    report = load_weights(model, tmp_path / "a.safetensors")
    assert not (report.missing or report.unexpected or report.left_out)
    np.testing.assert_array_equal(logits(model), logits(source))


def test_a_model_is_saved_for_timm_with_its_card_inside_and_beside(tmp_path):
    model, card = cait(), Card(name="mine", model="cait", img_size=32, crop_fraction=1.0)
    path = tmp_path / "a.safetensors"
    save_weights(model, path, card, to="timm")
    expected = as_torch(model, "head")
    assert {n: a.tobytes() for n, a in read_arrays(path).items()} == {n: a.tobytes() for n, a in expected.items()}
    assert read_card(path) == card
    path.with_suffix(".json").unlink()
    assert read_card(path) == card


def test_other_endings_and_layouts_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(CheckpointError, match=r"\.safetensors"):
        convert_file(tmp_path / "none.pth", tmp_path / "out.pdparams")
    with pytest.raises(CheckpointError, match="choose one of passl, timm"):
        save_weights(cait(), tmp_path / "out.safetensors", to="hf")
