# SPDX-License-Identifier: Apache-2.0
"""Which checkpoint a run goes on from, and what a new run deletes."""

import pytest

from passl.engine.checkpoint import Checkpoint, save_checkpoint
from passl.engine.output_dir import find_checkpoint, prepare_folder
from passl.utils import distributed
from passl.utils.config import Config
from passl.utils.errors import CheckpointError, ConfigError


def saved(folder, step):
    save_checkpoint(folder / "checkpoints", Checkpoint(step, {}, {}, {}), keep_last=None)


def test_machines_that_do_not_share_a_disk_are_told_so(tmp_path, monkeypatch):
    saved(tmp_path, 5)
    assert find_checkpoint(tmp_path, "auto").step == 5
    monkeypatch.setattr(distributed, "all_gather_object", lambda step: [step, -1])
    with pytest.raises(CheckpointError, match=r"steps \[5, -1\].*a disk that all machines share"):
        find_checkpoint(tmp_path, "auto")
    assert find_checkpoint(tmp_path, None) is None


def test_a_new_run_is_refused_or_leaves_nothing_of_the_old_one(tmp_path):
    saved(tmp_path, 5)
    for name in ("best.safetensors", "final.safetensors"):
        (tmp_path / name).write_bytes(b"old")
    with pytest.raises(ConfigError, match="--overwrite"):
        prepare_folder(tmp_path, Config(), fresh=True, overwrite=False, resume=None)
    assert (tmp_path / "best.safetensors").read_bytes() == b"old"
    prepare_folder(tmp_path, Config(), fresh=True, overwrite=True, resume=None)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
