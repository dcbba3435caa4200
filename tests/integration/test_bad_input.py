# SPDX-License-Identifier: Apache-2.0
"""What users get wrong: one clear message, exit code 1, and nothing lost."""

import pickle
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

REPOSITORY = Path(__file__).parents[2]
CONFIG = REPOSITORY / "tests" / "configs" / "classifier.yaml"


@pytest.fixture
def tool(monkeypatch, capsys):
    """Run a tool in this process; returns (exit code, what it wrote to stderr, to stdout)."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(REPOSITORY / "tools" / f"{name}.py"), run_name="__main__")
        output, error = capsys.readouterr()
        assert "Traceback" not in error
        return stopped.value.code, error, output

    return run


@pytest.fixture
def folder(tmp_path):
    """Three classes with four JPEGs each, in train and val."""
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for name in ("ant", "bee", "cat"):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(4):
                Image.fromarray(rng.integers(0, 255, [20, 24, 3], np.uint8)).save(tmp_path / split / name / f"{i}.jpg")
    return tmp_path


def overrides(folder, **more):
    crop = "[{name: RandomResizedCrop, size: 16}]"
    centre = "[{name: Resize, size: [16, 16]}]"
    values = {
        "output_dir": folder / "run",
        "epochs": 1,
        "model.head.num_classes": 3,
        "dataloader.train.batch_size": 4,
        "dataloader.train.dataset": f"{{name: ImageFolder, root: {folder}/train, transforms: {crop}}}",
        "dataloader.val.dataset": f"{{name: ImageFolder, root: {folder}/val, transforms: {centre}}}",
        **more,
    }
    return [part for key, value in values.items() for part in ("-o", f"{key}={value}")]


def train(tool, folder, *arguments, **more):
    return tool("train", "-c", CONFIG, *overrides(folder, **more), *arguments)


def test_a_folder_of_jpegs_trains_and_evaluates(tool, folder):
    code, error, output = train(tool, folder)
    assert (code, error) == (0, "")
    assert "evaluation at step 3: top1" in output
    result = folder / "result.json"
    weights = folder / "run" / "best.safetensors"
    code, error, output = tool("eval", "-c", CONFIG, *overrides(folder), "--weights", weights, "--json", result)
    assert (code, error) == (0, "")
    assert "on 12 images" in output
    assert result.exists()


def test_evaluation_by_topk_needs_no_training_images(tool, folder):
    train(tool, folder)
    (folder / "train").rename(folder / "gone")
    weights = folder / "run" / "checkpoints" / "step_00000003"
    code, error, _ = tool("eval", "-c", CONFIG, *overrides(folder), "--weights", weights)
    assert (code, error) == (0, "")


def test_four_mistakes_are_reported_together(tool, folder):
    more = {"model.architecture.img_sise": 16, "optimizer.learning_rate": "fast", "epochs": 0, "seeed": 1}
    code, error, _ = train(tool, folder, **more)
    assert code == 1
    for mistake in ("img_sise", "img_size", "optimizer.learning_rate", "epochs", "seeed", "did you mean 'seed'"):
        assert mistake in error
    assert not (folder / "run").exists()


BAD = {
    "missing data path": ({"dataloader.train.dataset.root": "/no/such/folder"}, ["/no/such/folder"]),
    "wrong num_classes": ({"model.head.num_classes": 2}, ["num_classes", "3"]),
    "size not divisible by the patch": ({"model.architecture.patch_size": 7}, ["img_size", "16", "7"]),
    "unwritable output_dir": ({"output_dir": "/proc/passl"}, ["output_dir", "/proc/passl"]),
    "output_dir under a file": ({"output_dir": "/dev/null/run"}, ["output_dir"]),
    "unknown key": ({"dataloader.train.bach_size": 4}, ["bach_size", "batch_size"]),
    "a list instead of a component": ({"model.head": "[1, 2]"}, ["model.head"]),
    "unknown component": ({"optimizer.name": "AdamWW"}, ["AdamW"]),
    "negative warm-up": ({"lr_scheduler.warmup_epochs": -1}, ["warm"]),
}


@pytest.mark.parametrize(("more", "words"), BAD.values(), ids=BAD)
def test_a_mistake_gets_one_clear_message(tool, folder, more, words):
    code, error, _ = train(tool, folder, **more)
    assert code == 1, error
    assert error.startswith("\nerror: ")
    for word in words:
        assert word in error


def test_an_empty_class_folder_is_named(tool, folder):
    (folder / "train" / "dog").mkdir()
    code, error, _ = train(tool, folder)
    assert code == 1
    assert "dog" in error


def test_a_truncated_jpeg_is_named_before_the_first_step_or_skipped(tool, folder):
    path = folder / "train" / "bee" / "2.jpg"
    path.write_bytes(path.read_bytes()[:200])
    code, error, _ = train(tool, folder)
    assert code == 1
    assert str(path) in error
    code, error, output = train(tool, folder, **{"dataloader.train.on_bad_file": "skip"})
    assert code == 0, error
    assert str(path) in output


def test_a_yaml_with_a_tab_says_where(tool, folder):
    config = folder / "tab.yaml"
    config.write_text("epochs: 1\nmodel:\n\tname: Classifier\n")
    code, error, _ = tool("train", "-c", config)
    assert code == 1
    assert "tab.yaml:3" in error
    assert "tab" in error.lower()


class Malicious:
    def __reduce__(self):
        import os

        return os.system, ("touch canary",)


def test_weights_that_would_run_code_are_refused_and_run_nothing(tool, folder, monkeypatch):
    monkeypatch.chdir(folder)
    weights = folder / "evil.pdparams"
    weights.write_bytes(pickle.dumps({"w": Malicious()}, protocol=2))
    for name, flag in (("train", "--weights"), ("eval", "--weights")):
        code, error, _ = tool(name, "-c", CONFIG, *overrides(folder), flag, weights)
        assert code == 1
        assert "system" in error
    assert not (folder / "canary").exists()


def test_a_corrupted_checkpoint_is_named_and_the_previous_one_is_used(tool, folder):
    train(tool, folder, **{"epochs": 2})
    newest = folder / "run" / "checkpoints" / "step_00000006" / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    code, error, output = train(tool, folder, "--resume", "auto", **{"epochs": 3})
    assert code == 0, error
    assert "step_00000006" in output and "is damaged" in output
    assert "step_00000003 at step 3" in output
    code, error, _ = train(tool, folder, "--resume", newest.parent.with_name("nothing"))
    assert code == 1
    assert "no such folder" in error
