# SPDX-License-Identifier: Apache-2.0
"""tools/convert.py from the command line."""

import runpy
import sys
from pathlib import Path

import pytest

from passl.catalogue import create_model
from passl.weights import known_card, read_card, save_weights
from passl.weights.safetensors import read_metadata, write_safetensors
from tests.weights.models import as_torch, resnet
from tests.weights.torch_writer import Call, Global, contiguous, write_zip

TOOL = Path(__file__).parents[2] / "tools" / "convert.py"


def convert(monkeypatch, *arguments):
    """Run the tool in this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["convert.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_path(str(TOOL), run_name="__main__")
    return exit_.value.code


def test_there_and_back_gives_the_same_file(tmp_path, monkeypatch, capsys):
    with open(tmp_path / "timm.safetensors", "wb") as stream:
        write_safetensors(stream, as_torch(resnet(), "fc"))
    assert convert(monkeypatch, tmp_path / "timm.safetensors", tmp_path / "a.safetensors", "--from", "timm") == 0
    assert "layout timm, 122 tensors" in capsys.readouterr().out
    assert convert(monkeypatch, tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--to", "timm") == 0
    first, second = (tmp_path / "timm.safetensors").read_bytes(), (tmp_path / "b.safetensors").read_bytes()
    assert first[int.from_bytes(first[:8], "little") + 8 :] == second[int.from_bytes(second[:8], "little") + 8 :]


def timm_resnet18(path, num_classes=1000):
    """A file of a whole ResNet-18 under timm's names."""
    with open(path, "wb") as stream:
        write_safetensors(stream, as_torch(create_model("resnet18", num_classes=num_classes), "fc"))
    return path


def test_a_card_is_written_and_travels_on(tmp_path, monkeypatch):
    source, card = timm_resnet18(tmp_path / "timm.safetensors"), "resnet18.a1_in1k"
    first, second, third, timm = (tmp_path / f"{name}.safetensors" for name in "abcd")
    assert convert(monkeypatch, source, first, "--card", card) == 0
    first.with_suffix(".json").unlink()  # the one in the header is enough
    assert convert(monkeypatch, first, second) == 0
    assert convert(monkeypatch, second, third, "--model", "resnet18") == 0
    assert convert(monkeypatch, third, timm, "--to", "timm") == 0
    assert read_card(second) == read_card(third) == read_card(timm) == known_card(card)
    assert read_metadata(timm).keys() == {"format", "card"}


def test_a_card_does_not_go_along_to_another_model(tmp_path, monkeypatch):
    source, target = tmp_path / "deit.safetensors", tmp_path / "larger.safetensors"
    card = known_card("deit3_small_patch16_224.fb_in1k")
    save_weights(create_model(card.model), source, card)
    assert convert(monkeypatch, source, target, "--model", "deit3_small_patch16_384") == 0  # its positions are resized
    assert read_card(target) is None


@pytest.mark.parametrize(
    ("num_classes", "card", "message"),
    [
        (1000, "resnet50.a1_in1k", "do not fit the model"),
        (10, "resnet18.a1_in1k", "no classifier of the 1000 classes of resnet18.a1_in1k"),
    ],
)
def test_a_card_of_other_weights_writes_nothing(tmp_path, monkeypatch, capsys, num_classes, card, message):
    source = timm_resnet18(tmp_path / "timm.safetensors", num_classes)
    assert convert(monkeypatch, source, tmp_path / "a.safetensors", "--card", card) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "a.safetensors").exists()


def test_a_card_that_nobody_knows_writes_nothing(tmp_path, monkeypatch, capsys):
    with open(tmp_path / "timm.safetensors", "wb") as stream:
        write_safetensors(stream, as_torch(resnet(), "fc"))
    assert convert(monkeypatch, tmp_path / "timm.safetensors", tmp_path / "a.safetensors", "--card", "resnet18.a9") == 1
    assert "did you mean" in capsys.readouterr().err
    assert not (tmp_path / "a.safetensors").exists()


def test_a_file_that_would_run_code_is_an_error_message(tmp_path, monkeypatch, capsys):
    box = Call(Global("mine", "Box"), ())
    write_zip(
        tmp_path / "a.pth",
        {"state_dict": {"norm.weight": contiguous("0", as_torch(resnet(), "fc")["bn1.weight"])}, "x": box},
    )
    assert convert(monkeypatch, tmp_path / "a.pth", tmp_path / "a.safetensors") == 1
    assert "refused to load 'mine.Box'" in capsys.readouterr().err
    assert not (tmp_path / "a.safetensors").exists()
    assert convert(monkeypatch, tmp_path / "a.pth", tmp_path / "a.safetensors", "--ignore-global", "mine.Box") == 0


def test_a_card_of_another_model_than_the_named_one_is_an_error(tmp_path, monkeypatch, capsys):
    source, target = tmp_path / "timm.safetensors", tmp_path / "passl.safetensors"
    with open(source, "wb") as stream:
        write_safetensors(stream, as_torch(resnet(), "fc"))
    assert convert(monkeypatch, source, target, "--model", "resnet18", "--card", "resnet34.a1_in1k") == 1
    message = "--model is resnet18, but the weights resnet34.a1_in1k are of the model resnet34; give --model resnet34"
    assert message in capsys.readouterr().err and not target.exists()
