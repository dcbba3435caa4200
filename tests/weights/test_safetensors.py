# SPDX-License-Identifier: Apache-2.0
"""The format agrees with the reference package in both directions."""

import json

import numpy as np
import paddle
import pytest
import safetensors.numpy

from passl.utils.errors import CheckpointError
from passl.weights.safetensors import read_metadata, read_safetensors, write_safetensors

ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "h": np.array([1.5, 2.5, 3.5], np.float16),
    "count": np.array(7),
    "flags": np.array([True, False, True]),
    "none": np.empty((0, 4), np.float32),
    "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.safetensors"


def write(path, arrays, metadata=None):
    with open(path, "wb") as stream:
        write_safetensors(stream, arrays, metadata)


def test_the_reference_package_reads_what_we_write(path):
    write(path, ARRAYS, {"step": "3"})
    read = safetensors.numpy.load_file(path)
    assert set(read) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype and read[name].shape == array.shape
        np.testing.assert_array_equal(read[name], array)


def test_we_read_what_the_reference_package_writes(path):
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in ARRAYS.items()}
    safetensors.numpy.save_file(contiguous, path, metadata={"step": "3"})
    arrays, metadata = read_safetensors(path)
    assert metadata == read_metadata(path) == {"step": "3"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].shape == array.shape


def test_bfloat16_of_other_programs_is_read_with_its_values(path):
    values = np.array([[1.0, -2.5, 3.140625]], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    header = {"half": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [0, 6]}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bits.tobytes())
    np.testing.assert_array_equal(read_safetensors(path)[0]["half"], values)


def test_paddle_tensors_are_written_bfloat16_as_float32(path):
    tensor = paddle.to_tensor([1.0, -2.5, 3.140625])
    write(path, {"half": tensor.astype("bfloat16"), "full": tensor})
    for array in read_safetensors(path)[0].values():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, tensor.numpy())


def test_the_same_content_gives_the_same_bytes_in_any_order(path, tmp_path):
    metadata = {str(i): "x" for i in range(8)}
    write(path, ARRAYS, metadata)
    write(tmp_path / "b", dict(reversed(ARRAYS.items())), dict(reversed(metadata.items())))
    assert path.read_bytes() == (tmp_path / "b").read_bytes()
    assert list(json.loads(path.read_bytes()[8:].split(b"}}")[0] + b"}}")["__metadata__"]) == sorted(metadata)


def test_types_without_a_name_in_the_format_are_refused(path):
    with pytest.raises(CheckpointError, match="'text'"):
        write(path, {"text": np.array(["x"])})


@pytest.mark.parametrize("kept", [4, 20, 200, -1])
def test_a_truncated_file_is_named_as_such(path, kept):
    write(path, ARRAYS)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="truncated"):
        read_safetensors(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": ["2"], "data_offsets": [0, 8]},
        {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2]},
        [],
    ],
)
def test_a_header_that_contradicts_itself_is_refused(path, entry):
    text = json.dumps({"w": entry}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 8)
    with pytest.raises(CheckpointError, match="no safetensors file"):
        read_safetensors(path)
