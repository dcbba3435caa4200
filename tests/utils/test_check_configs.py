# SPDX-License-Identifier: Apache-2.0
"""Each shipped config is a claim: its keys exist, its model can be built and has the parameters it says."""

import importlib.util
import sys
from pathlib import Path

import pytest

from passl.utils.config import config_root

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_configs.py"
spec = importlib.util.spec_from_file_location("check_configs", TOOL)
check_configs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_configs)

SHIPPED = check_configs.find_configs(config_root())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.relative_to(config_root()).as_posix())
def test_a_shipped_config_is_right(path):
    count, faults = check_configs.check_file(path)
    assert faults == []
    assert count > 0


def test_all_shipped_configs_are_found_and_bases_are_not():
    names = [path.relative_to(config_root()).as_posix() for path in SHIPPED]
    assert "cait/cait_s24_224.yaml" in names
    assert not any(name.startswith("_base_/") for name in names)


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["check_configs.py", *arguments])
    return check_configs.main()


def test_the_tool_prints_a_table_and_counts_faults(write, monkeypatch, capsys):
    header = "# parameters: 11,956,265\n"
    write(f"{header}_base_: configs/cait/cait_xxs24_224.yaml\n", "wrong_count.yaml")
    write("_base_: configs/cait/cait_xxs24_224.yaml\nepochs: 0\n", "below/wrong_epochs.yaml")
    write("_base_: configs/cait/cait_xxs24_224.yaml\n", "below/right.yaml")
    write("a: [", "_base_/broken.yaml")
    assert run(monkeypatch, ".") == 1
    out = capsys.readouterr().out
    assert "the header claims 11,956,265 parameters, the model has 11,956,264" in out
    assert "epochs: expected an integer or null in [1, inf), got 0" in out
    assert out.count("11,956,264  ok") == 1
    assert out.endswith("3 configs, 2 problems\n")
    assert run(monkeypatch, "below/right.yaml") == 0
    assert run(monkeypatch, "missing.yaml") == 1
