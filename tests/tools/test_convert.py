# SPDX-License-Identifier: Apache-2.0
"""tools/convert.py from the command line."""

import runpy
import sys
from pathlib import Path

import pytest

from passl.weights.safetensors import write_safetensors
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
