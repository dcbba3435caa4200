# SPDX-License-Identifier: Apache-2.0
"""Telling files apart by content; Paddle's, NumPy's and safetensors files."""

import contextlib
import pickle

import numpy as np
import paddle
import pytest

from passl.utils.errors import CheckpointError
from passl.weights.read import read_arrays
from passl.weights.safetensors import write_safetensors
from tests.weights.torch_writer import contiguous, write_legacy, write_zip

W = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_safetensors_file_is_one_whatever_the_length_of_its_header(tmp_path):
    """The length comes first; its low byte is also how a pickle or a zip archive may begin."""
    seen = set()
    for padding in range(0, 300, 8):
        path = tmp_path / "a.safetensors"
        with open(path, "wb") as stream:
            write_safetensors(stream, {"w": W}, {"note": "x" * padding})
        seen.add(path.read_bytes()[0])
        np.testing.assert_array_equal(read_arrays(path)["w"], W)
    assert {0x80, ord("("), ord("x")} <= seen  # safetensors pads headers to multiples of 8


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_file_of_paddle_save_reads_like_paddle_load(tmp_path, protocol):
    net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.BatchNorm1D(4))
    path = str(tmp_path / "net.pdparams")
    paddle.save(net.state_dict(), path, protocol=protocol)
    expected = paddle.load(path, return_numpy=True)
    read = read_arrays(path)
    assert list(read) == list(expected)
    for name, array in expected.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_nested_paddle_tensors_and_bfloat16_are_read(tmp_path):
    half = paddle.to_tensor([1.5, -2.0]).astype("bfloat16")
    paddle.save({"state_dict": {"w": paddle.to_tensor(W)}, "l": [half], "epoch": 1}, str(tmp_path / "a.pd"))
    read = read_arrays(tmp_path / "a.pd")
    np.testing.assert_array_equal(read["state_dict.w"], W)
    np.testing.assert_array_equal(read["l.0"], np.array([1.5, -2.0], np.float32))


def test_large_parameters_that_paddle_split_are_joined(tmp_path):
    flat = W.reshape(-1)
    content = {
        "w@@.0": flat[:5],
        "w@@.1": flat[5:],
        "b": W[0],
        "UnpackBigParamInfor@@": {"w": {"OriginShape": (3, 4), "slices": ["w@@.0", "w@@.1"]}},
    }
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps(content, protocol=2))
    read = read_arrays(tmp_path / "a.pdparams")
    assert set(read) == {"w", "b"}
    np.testing.assert_array_equal(read["w"], W)
    del content["w@@.1"]
    (tmp_path / "a.pdparams").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(CheckpointError, match="slice"):
        read_arrays(tmp_path / "a.pdparams")


def test_numpy_arrays_in_pickles_keep_order_and_byte_order_and_text_is_skipped(tmp_path):
    content = {"f": np.asfortranarray(W), "big": W.astype(">f4"), "text": np.array(["x"]), "o": np.array([{}], object)}
    (tmp_path / "a.pd").write_bytes(pickle.dumps(content))
    read = read_arrays(tmp_path / "a.pd")
    assert set(read) == {"f", "big"}
    np.testing.assert_array_equal(read["f"], W)
    np.testing.assert_array_equal(read["big"], W)


def test_npz_files_are_read_and_pickled_objects_in_them_are_not(tmp_path):
    bits = (W.view(np.uint32) >> 16).astype(np.uint16)
    np.savez(tmp_path / "a.npz", **{"params/w": W, "half": bits.view("V2")})
    read = read_arrays(tmp_path / "a.npz")
    np.testing.assert_array_equal(read["params/w"], W)
    np.testing.assert_array_equal(read["half"], W)  # small whole numbers are exact in bfloat16
    np.savez(tmp_path / "b.npz", w=np.array([{}], object))
    with pytest.raises(CheckpointError, match=r"b\.npz"):
        read_arrays(tmp_path / "b.npz")


def test_the_content_decides_not_the_name(tmp_path):
    with open(tmp_path / "a.pth", "wb") as stream:
        write_safetensors(stream, {"w": W})
    np.testing.assert_array_equal(read_arrays(tmp_path / "a.pth")["w"], W)


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
        (b"<!DOCTYPE html><html>404</html>", "download probably failed"),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 64, "HDF5"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0", "gzip"),
        (b'{"weight_map": {}}', "index.json"),
        (b"\x93NUMPY\x01\0" + b"\0" * 64, "savez"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 64, "JPEG"),
        (b"x" * 257 + b"ustar\0" + b"x" * 300, "tar archive"),
        (b"\x07" * 64, "no known weight file"),
    ],
)
def test_a_foreign_file_is_named_for_what_it_is(tmp_path, content, says):
    path = tmp_path / "w.pth"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=says) as caught:
        read_arrays(path)
    assert str(path) in str(caught.value)


def test_missing_files_folders_and_files_without_tensors_are_errors(tmp_path):
    with pytest.raises(CheckpointError, match="cannot open"):
        read_arrays(tmp_path / "no.pth")
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(CheckpointError, match=r"is a folder \(holding: model\.safetensors\)"):
        read_arrays(tmp_path)
    (tmp_path / "a.pd").write_bytes(pickle.dumps({"epoch": 3, "note": "x"}))
    with pytest.raises(CheckpointError, match="holds no tensors"):
        read_arrays(tmp_path / "a.pd")


@pytest.mark.parametrize("kind", ["zip", "legacy", "paddle", "safetensors", "npz"])
def test_files_with_random_damage_are_read_or_refused_with_a_message(tmp_path, kind):
    path = tmp_path / "w"
    tensors = {"model": {"a": contiguous("0", W), "b": contiguous("1", W[0])}, "epoch": 1}
    if kind == "zip":
        write_zip(path, tensors)
    elif kind == "legacy":
        write_legacy(path, tensors)
    elif kind == "paddle":
        path.write_bytes(pickle.dumps({"w": W}, protocol=4))
    elif kind == "safetensors":
        with open(path, "wb") as stream:
            write_safetensors(stream, {"w": W})
    else:
        with open(path, "wb") as stream:
            np.savez(stream, w=W)
    content, random = path.read_bytes(), np.random.RandomState(0)
    for i in range(100):
        damaged = bytearray(content)
        for _ in range(random.choice([1, 4])):
            damaged[random.randint(len(damaged))] = random.randint(256)
        (tmp_path / f"w{i}").write_bytes(bytes(damaged))  # a mapped file must not change under its reader
        with contextlib.suppress(CheckpointError):
            read_arrays(tmp_path / f"w{i}")
