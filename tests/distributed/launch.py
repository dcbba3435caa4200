# SPDX-License-Identifier: Apache-2.0
"""Runs a script in two processes that train together, on this machine's CPU."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def run_two_processes(script, tmp_path, args: Iterable[str] = (), timeout: float = 120.0) -> list[str]:
    """Run ``python script *args`` as ranks 0 and 1; returns what each wrote, in rank order.

    Args:
        script: path of a Python file.
        tmp_path: folder for the logs, one per test.
        args: command line of the script.
        timeout: seconds after which both processes are killed.
    Raises:
        AssertionError: a process failed or took too long; the text holds both logs.
    """
    logs = Path(tmp_path) / "logs"
    command = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "2"]
    command += ["--master", f"127.0.0.1:{_free_port()}", "--log_dir", str(logs), str(script), *map(str, args)]
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        launcher = process.communicate(timeout=timeout)[0]
        failure = f"exit status {process.returncode}" if process.returncode else None
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        launcher, failure = process.communicate()[0], f"not done after {timeout} s"
    outputs = [path.read_text() for path in sorted(logs.glob("workerlog.*"))]
    if failure:
        texts = "\n".join(f"--- rank {i}\n{text[-4000:]}" for i, text in enumerate(outputs))
        raise AssertionError(f"{Path(script).name}: {failure}\n{texts}\n--- launcher\n{launcher[-2000:]}")
    return outputs


def _environment() -> dict[str, str]:
    """This process's environment, without what another launch left in it; the launcher needs no list of GPUs."""
    foreign = ("PADDLE_", "FLAGS_", "CUDA_VISIBLE_DEVICES")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return {
        **kept,
        "PYTHONPATH": str(REPOSITORY),
        "OMP_NUM_THREADS": "1",
        "PADDLE_DISTRI_BACKEND": "gloo",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
