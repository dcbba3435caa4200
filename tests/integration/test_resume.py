# SPDX-License-Identifier: Apache-2.0
"""A run that is killed and resumed ends exactly as one that was left alone."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
CONFIGS = REPOSITORY / "tests" / "configs"


def command(config, output_dir, *arguments):
    return [
        sys.executable, str(REPOSITORY / "tools" / "train.py"), "-c", str(CONFIGS / config),
        "-o", f"output_dir={output_dir}", *arguments,
    ]  # fmt: skip


def result(output_dir):
    """Final weights as bytes, and the metrics without the measured speed."""
    lines = (output_dir / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        record.pop("speed")
    return (output_dir / "final.safetensors").read_bytes(), records


def run_to_the_end(config, output_dir, *arguments):
    finished = subprocess.run(command(config, output_dir, *arguments), capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return result(output_dir)


def kill_again_and_again(config, output_dir, kills, chance, *arguments):
    """Kill the run ``kills`` times at random moments after it did something, then let it end."""
    for _ in range(kills):
        process = subprocess.Popen(
            command(config, output_dir, "--resume", "auto", *arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        before = (output_dir / "metrics.jsonl").stat().st_size if (output_dir / "metrics.jsonl").exists() else -1
        while process.poll() is None:
            metrics = output_dir / "metrics.jsonl"
            if metrics.exists() and metrics.stat().st_size != before:
                break
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return run_to_the_end(config, output_dir, "--resume", "auto", *arguments)


LONG = (
    "-o",
    "epochs=8",
    "-o",
    "checkpoint.save_every_steps=1",
    "-o",
    "ema.enabled=true",
    "-o",
    "model.architecture.drop_path_rate=0.2",
)


@pytest.mark.parametrize(("config", "kills"), [("classifier.yaml", 3)])
def test_kills_at_random_moments_change_nothing(tmp_path, config, kills):
    expected = run_to_the_end(config, tmp_path / "whole", *LONG)
    found = kill_again_and_again(config, tmp_path / "killed", kills, random.Random(0), *LONG)
    assert found[1] == expected[1]
    assert found[0] == expected[0]


@pytest.mark.slow
@pytest.mark.parametrize("config", ["classifier.yaml", "batchnorm.yaml", "simclr.yaml"])
@pytest.mark.parametrize("workers", [0, 2])
def test_ten_kills_change_nothing(tmp_path, config, workers):
    more = ("-o", "epochs=8", "-o", "checkpoint.save_every_steps=1", "-o", f"dataloader.train.num_workers={workers}")
    expected = run_to_the_end(config, tmp_path / "whole", *more)
    assert kill_again_and_again(config, tmp_path / "killed", 10, random.Random(workers), *more) == expected


def test_a_polite_stop_saves_and_says_how_to_go_on(tmp_path):
    expected = run_to_the_end("classifier.yaml", tmp_path / "whole", *LONG)
    process = subprocess.Popen(
        command("classifier.yaml", tmp_path / "stopped", *LONG),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    metrics = tmp_path / "stopped" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size > 500):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + signal.SIGTERM, output
    assert "--resume auto" in output
    assert run_to_the_end("classifier.yaml", tmp_path / "stopped", "--resume", "auto", *LONG) == expected


def test_a_run_is_never_overwritten_unasked(tmp_path):
    run_to_the_end("classifier.yaml", tmp_path, "-o", "epochs=1")
    again = subprocess.run(command("classifier.yaml", tmp_path, "-o", "epochs=1"), capture_output=True, text=True)
    assert again.returncode == 1
    assert "--overwrite" in again.stderr
    assert "Traceback" not in again.stderr
