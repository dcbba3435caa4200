# SPDX-License-Identifier: Apache-2.0
"""A file is complete or not there, whatever happens while it is written."""

import errno
import os

import numpy as np
import pytest

from passl.utils.errors import CheckpointError
from passl.weights.read import read_arrays
from passl.weights.save import atomic_file, write_safetensors_atomic

OLD = {"w": np.zeros(3, np.float32)}
NEW = {"w": np.ones(3, np.float32)}


def files(folder):
    return sorted(p.name for p in folder.iterdir())


def test_the_file_and_its_folders_are_created_and_replaced(tmp_path):
    path = tmp_path / "deep" / "er" / "a.safetensors"
    write_safetensors_atomic(path, OLD)
    write_safetensors_atomic(path, NEW)
    np.testing.assert_array_equal(read_arrays(path)["w"], NEW["w"])
    assert files(path.parent) == ["a.safetensors"]


def test_the_name_appears_only_after_the_bytes_reached_the_disk(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (events.append("replace"), replace(*names)))
    write_safetensors_atomic(tmp_path / "a.safetensors", NEW)
    assert events == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path, monkeypatch, failing):
    path = tmp_path / "a.safetensors"
    write_safetensors_atomic(path, OLD)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(CheckpointError, match=r"No space left on device; [\d.]+ MiB free"):
        write_safetensors_atomic(path, NEW)
    np.testing.assert_array_equal(read_arrays(path)["w"], OLD["w"])
    assert files(tmp_path) == ["a.safetensors"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_file(path) as stream:
        stream.write(b"ne")
        raise error
    assert path.read_bytes() == b"old" and files(tmp_path) == ["a.bin"]


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"could not write .*file/a\.safetensors"):
        write_safetensors_atomic(tmp_path / "file" / "a.safetensors", NEW)
