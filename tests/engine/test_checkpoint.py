# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from passl.engine.checkpoint import MODEL, STATE, Checkpoint, latest_checkpoint, load_checkpoint, save_checkpoint
from passl.utils.errors import CheckpointError
from passl.utils.log import logger


def checkpoint(step, value=1.0):
    weights = {"w": np.full([4, 3], value, np.float32), "steps": np.asarray(step, np.int64)}
    return Checkpoint(step, weights, {"optimizer/m/w": np.zeros([4, 3], np.float32)}, {"best": {"top1": 50.0}})


def test_what_is_saved_is_loaded_bit_for_bit(tmp_path):
    path = save_checkpoint(tmp_path, checkpoint(7, 0.1), keep_last=3)
    loaded = load_checkpoint(path)
    assert loaded.step == 7
    assert loaded.state["best"] == {"top1": 50.0}
    assert loaded.model["w"].tobytes() == checkpoint(7, 0.1).model["w"].tobytes()
    assert set(loaded.training) == {"optimizer/m/w"}


def test_only_the_newest_are_kept(tmp_path):
    for step in (5, 10, 100, 1000):
        save_checkpoint(tmp_path, checkpoint(step), keep_last=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_00000100", "step_00001000"]


def test_latest_passes_over_a_truncated_file_and_names_it(tmp_path, caplog):
    save_checkpoint(tmp_path, checkpoint(1), keep_last=None)
    damaged = save_checkpoint(tmp_path, checkpoint(2), keep_last=None) / MODEL
    damaged.write_bytes(damaged.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=r"model.safetensors is damaged"):
        load_checkpoint(damaged.parent)
    assert latest_checkpoint(tmp_path).step == 1


def test_a_flipped_bit_is_noticed(tmp_path):
    path = save_checkpoint(tmp_path, checkpoint(1), keep_last=None)
    content = bytearray((path / MODEL).read_bytes())
    content[-1] ^= 1
    (path / MODEL).write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match="is damaged"):
        load_checkpoint(path)


def test_all_damaged_is_an_error_and_none_at_all_is_a_fresh_start(tmp_path):
    assert latest_checkpoint(tmp_path / "nothing") is None
    path = save_checkpoint(tmp_path, checkpoint(1), keep_last=None)
    (path / STATE).write_text("{")
    with pytest.raises(CheckpointError, match="none of the checkpoints"):
        latest_checkpoint(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", json.dumps({"format": 99}), "not json"])
def test_a_foreign_folder_gives_a_clear_error(tmp_path, content):
    (tmp_path / STATE).write_text(content)
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path)


def test_a_half_written_checkpoint_is_never_taken(tmp_path):
    save_checkpoint(tmp_path, checkpoint(1), keep_last=None)
    half = tmp_path / ".tmp-step_00000002"
    half.mkdir()
    (half / MODEL).write_bytes(b"half")
    assert latest_checkpoint(tmp_path).step == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_an_error_and_the_earlier_checkpoint_stays(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("this machine does not allow mounting")
    try:
        save_checkpoint(disk, checkpoint(1), keep_last=3)
        big = checkpoint(2)
        big.model["w"] = np.zeros([1 << 20], np.float32)
        with pytest.raises(CheckpointError, match="Earlier checkpoints are untouched"):
            save_checkpoint(disk, big, keep_last=3)
        assert latest_checkpoint(disk).step == 1
        assert [p.name for p in disk.iterdir()] == ["step_00000001"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_kill_while_writing_leaves_the_earlier_checkpoint(tmp_path):
    script = (
        "import sys, numpy as np\n"
        "from passl.engine.checkpoint import Checkpoint, save_checkpoint\n"
        "from pathlib import Path\n"
        "for step in range(1, 10_000):\n"
        "    w = {'w': np.full([1 << 16], step, np.float32)}\n"
        "    save_checkpoint(Path(sys.argv[1]), Checkpoint(step, w, {}, {}), 2)\n"
        "    print(step, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    seen = [process.stdout.readline() for _ in range(5)]
    process.kill()
    seen += process.communicate()[0].split()
    found = latest_checkpoint(tmp_path)
    assert found.step >= int(seen[-1])
    assert (found.model["w"] == found.step).all()


def test_checkpoints_after_the_one_that_a_run_went_back_to_are_set_aside(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logger, "propagate", True)
    for step in (100, 200, 300):
        save_checkpoint(tmp_path, checkpoint(step), keep_last=3)
    (tmp_path / "step_00000300" / "model.safetensors").write_bytes(b"damaged")
    new = save_checkpoint(tmp_path, checkpoint(150, 2.0), keep_last=1)
    assert latest_checkpoint(tmp_path).path == new
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "given_up_step_00000200",
        "given_up_step_00000300",
        "step_00000150",
    ]
    assert "step_00000200" in caplog.text
