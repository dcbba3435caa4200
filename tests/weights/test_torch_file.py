# SPDX-License-Identifier: Apache-2.0
"""PyTorch files, in both formats, without PyTorch."""

import numpy as np
import pytest

from passl.utils.errors import CheckpointError
from passl.weights.read import read_arrays
from tests.weights.torch_writer import Call, Global, Storage, contiguous, tensor, write_legacy, write_zip

BASE = np.arange(24, dtype=np.float32)


@pytest.fixture(params=[write_zip, write_legacy], ids=["zip", "legacy"])
def write(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.pth"


def test_contiguous_tensors_of_every_type_come_back_with_their_bytes(write, path):
    arrays = {
        "float": BASE.reshape(2, 3, 4),
        "double": np.linspace(0, 1, 5),
        "half": np.array([1.5, -2.0], np.float16),
        "long": np.array([[1, -(2**40)]]),
        "bytes": np.array([255, 0], np.uint8),
        "bool": np.array([True, False]),
        "scalar": np.array(3),
    }
    write(path, {name: contiguous(str(i), array) for i, (name, array) in enumerate(arrays.items())})
    read = read_arrays(path)
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and read[name].shape == array.shape, name
        assert read[name].tobytes() == array.tobytes(), name


def test_strides_and_offsets_are_followed_and_storages_shared(write, path):
    storage = Storage("0", "Float", BASE)
    content = {
        "transposed": tensor(storage, (6, 4), (1, 6)),
        "every_other_column": tensor(storage, (4, 3), (6, 2), offset=1),
        "expanded": tensor(storage, (3, 4), (0, 1), offset=8),
        "channels_last": tensor(storage, (1, 3, 2, 4), (24, 1, 12, 3)),
        "tail": tensor(storage, (4,), (1,), offset=20),
        "nothing": tensor(storage, (0, 4), (4, 1)),
    }
    write(path, content)
    read = read_arrays(path)
    matrix = BASE.reshape(4, 6)
    np.testing.assert_array_equal(read["transposed"], matrix.T)
    np.testing.assert_array_equal(read["every_other_column"], matrix[:, 1::2])
    np.testing.assert_array_equal(read["expanded"], np.tile(BASE[8:12], (3, 1)))
    np.testing.assert_array_equal(read["channels_last"], BASE.reshape(1, 2, 4, 3).transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(read["tail"], BASE[20:])
    assert read["nothing"].shape == (0, 4)


def test_bfloat16_becomes_the_same_number_in_float32(write, path):
    values = np.array([1.0, -2.5, 3.140625], np.float32)  # exact in bfloat16
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    write(path, {"w": contiguous("0", bits, kind="BFloat16")})
    read = read_arrays(path)["w"]
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, values)


def test_containers_are_joined_by_dots_and_training_state_is_skipped(write, path):
    parameter = Call(Global("torch._utils", "_rebuild_parameter"), (contiguous("0", BASE), True, None))
    content = {
        "model": Call(Global("collections", "OrderedDict"), ([["blocks.0.w", parameter]],), state={"_metadata": {}}),
        "parts": [contiguous("1", BASE[:2]), {"b": contiguous("2", BASE[:3])}],
        "optimizer": {"state": {0: {"exp_avg": contiguous("3", BASE)}}},
        "args": Call(Global("argparse", "Namespace"), (), state={"lr": 1}),
        "epoch": 3,
    }
    write(path, content)
    assert {name: array.size for name, array in read_arrays(path).items()} == {
        "model.blocks.0.w": 24,
        "parts.0": 2,
        "parts.1.b": 3,
    }


def test_a_settings_object_is_never_constructed(write, path, monkeypatch):
    import argparse

    monkeypatch.setattr(argparse, "Namespace", lambda *a, **k: pytest.fail("constructed"))
    write(path, {"w": contiguous("0", BASE), "settings": Call(Global("argparse", "Namespace"), (), state={"lr": 1})})
    assert list(read_arrays(path)) == ["w"]


@pytest.mark.parametrize("shape, stride, offset", [((25,), (1,), 0), ((4, 6), (7, 1), 0), ((2,), (1,), 23)])
def test_a_tensor_that_reaches_beyond_its_storage_is_an_error(write, path, shape, stride, offset):
    write(path, {"w": tensor(Storage("0", "Float", BASE), shape, stride, offset)})
    with pytest.raises(CheckpointError, match="its storage has 24"):
        read_arrays(path)


def test_negative_strides_and_absurd_expansions_are_errors(write, path):
    write(path, {"w": tensor(Storage("0", "Float", BASE), (2, 2), (-1, 1), 8)})
    with pytest.raises(CheckpointError, match="strides"):
        read_arrays(path)
    write(path, {"w": tensor(Storage("0", "Float", BASE), (2**20, 2**20), (0, 0))})
    with pytest.raises(CheckpointError, match="its storage has 24"):
        read_arrays(path)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_named_as_such(write, path, kept):
    write(path, {"w": contiguous("0", np.arange(1000, dtype=np.float32))})
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(CheckpointError, match=r"weights\.pth.*(truncated|damaged)"):
        read_arrays(path)


def test_a_flipped_bit_in_a_zip_is_found(path):
    write_zip(path, {"w": contiguous("0", BASE)})
    content = bytearray(path.read_bytes())
    content[content.index(BASE.tobytes()) + 10] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match="checksum"):
        read_arrays(path)


def test_a_missing_storage_is_an_error(path):
    write_zip(path, {"w": contiguous("0", BASE)}, root="a")
    content = path.read_bytes().replace(b"a/data/0", b"a/data/7")
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="data/0 is missing"):
        read_arrays(path)


def test_a_whole_pickled_model_is_refused_with_advice(write, path):
    write(path, Call(Global("torch.nn.modules.linear", "Linear"), ()))
    with pytest.raises(CheckpointError, match=r"state_dict\(\)"):
        read_arrays(path)


def test_torchscript_modules_give_their_tensors(path):
    layer = Call(Global("__torch__.torch.nn", "Linear"), (), state={"weight": contiguous("0", BASE), "training": True})
    write_zip(path, Call(Global("__torch__", "Net"), (), state={"fc": layer}))
    assert list(read_arrays(path)) == ["fc.weight"]
