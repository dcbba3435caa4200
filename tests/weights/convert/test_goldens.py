# SPDX-License-Identifier: Apache-2.0
"""timm -> ours -> timm returns the same bytes, for the real key list of every reference model."""

import pytest

from passl.weights.convert import normalise, to_layout
from passl.weights.convert.files import convert_file
from passl.weights.safetensors import write_safetensors
from tests.weights.convert.cases import GOLDENS, reference, same


@pytest.mark.parametrize("golden", sorted(path.stem for path in GOLDENS.glob("timm__*.npz")))
def test_the_round_trip_is_exact(golden):
    arrays = reference(golden)
    normal = normalise(arrays)
    assert (normal.layout, normal.prefix) == ("timm", "")
    ours = {n if n.startswith("head.") else f"architecture.{n}": a for n, a in normal.arrays.items()}
    assert not any(name.endswith(("running_mean", "running_var")) for name in ours)
    back = to_layout(ours)
    same(back, arrays)


@pytest.mark.parametrize("golden", sorted(path.stem for path in GOLDENS.glob("timm__*.npz")))
def test_files_come_back_to_the_byte(golden, tmp_path):
    timm, ours, back = (tmp_path / f"{name}.safetensors" for name in ("timm", "ours", "back"))
    with open(timm, "wb") as stream:
        write_safetensors(stream, reference(golden), {"format": "pt"})
    assert convert_file(timm, ours).layout == "timm"
    convert_file(ours, back, to="timm")
    assert back.read_bytes() == timm.read_bytes()
