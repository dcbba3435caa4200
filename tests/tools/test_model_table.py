# SPDX-License-Identifier: Apache-2.0
"""docs/models.md is what tools/model_table.py gives."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import passl
from passl.catalogue import config_path

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("model_table", ROOT / "tools" / "model_table.py")
model_table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model_table)

AGAIN = "run: python tools/model_table.py"
TIMM = {"levit_128s": 0.305, "pvt_v2_b0": 0.566, "resnet18": 1.814}  # timm's GMACs of these models
READ = {  # and of some that are only read from the table
    "beit_large_patch16_512": 361.986,
    "levit_384": 2.352,
    "pvt_v2_b5": 11.717,
    "resnet50": 4.089,
}


@pytest.fixture(scope="module")
def table():
    return model_table.read_table(model_table.TABLE)


def test_the_table_lists_every_model_once(table):
    assert list(table) == passl.list_models(), AGAIN


def test_what_is_written_about_models_is_up_to_date(table):
    for name in passl.list_models():
        header = re.search(r"^# parameters: ([\d,]+)$", config_path(name).read_text(), re.MULTILINE)  # tested elsewhere
        expected = {"top-1": "-", "weights": "-", **model_table.written_columns(name), "parameters": header[1]}
        assert {column: table[name][column] for column in expected} == expected, AGAIN


def test_the_document_is_the_generated_one(table):
    assert model_table.TABLE.read_text(encoding="utf-8") == model_table.render(list(table.values())), AGAIN


@pytest.mark.parametrize("name", list(TIMM))
def test_multiply_adds_equal_timms(table, name):
    assert model_table.static_columns(name)["parameters"] == table[name]["parameters"]
    macs = model_table.count_macs(name) / 1e9
    assert macs == pytest.approx(TIMM[name], abs=5.1e-4)
    assert table[name]["GMACs"] == f"{macs:.3f}", AGAIN


@pytest.mark.parametrize("name", list(READ))
def test_written_multiply_adds_equal_timms(table, name):
    assert float(table[name]["GMACs"]) == pytest.approx(READ[name], abs=1.1e-3)
