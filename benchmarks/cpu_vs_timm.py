# SPDX-License-Identifier: Apache-2.0
"""Training and inference on a CPU, in images per second, beside PyTorch with timm.

Each side runs in a process of its own with its default threads; both stay loaded and take turns step by step, so
that other load on the machine hits both.  A training step is forward, cross entropy, backward and AdamW, in float32.
"frozen" is inference through ``passl.runtime.freeze``; the other figures are eager.  "product" is the speed of a
2048 x 2048 x 2048 matrix product, in GFLOP/s: a transformer's images per second times its operations (2 x GMACs of
docs/models.md, three times that for a training step) cannot exceed it, so it tells how much a ratio can be on the
machine at hand.  Ratios are medians over the turns of passl's speed over timm's: above 1, passl is faster.

    python benchmarks/cpu_vs_timm.py --peer-python PYTHON_WITH_TORCH_AND_TIMM --json result.json
    python benchmarks/cpu_vs_timm.py --settings      what each setting of passl.runtime brings; needs no timm
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

MODELS = {"vit_small_patch16_224": "ViT-S/16", "cait_xxs24_224": "CaiT-XXS24", "resnet18": "ResNet-18"}
WORK, EAGER_WORK = ("train", "infer", "frozen"), ("train", "infer")
SIDE = 2048  # of the matrices of the product
WARM_UP_STEPS = 2
REST_SECONDS = 0.3  # Paddle's threads spin for 0.2 s after a product: the other side must not feel that

# Each variant undoes one setting of passl.runtime, which leaves alone what the environment sets.
SETTINGS = {
    "all settings": {},
    "none (PASSL_RUNTIME=off)": {"PASSL_RUNTIME": "off"},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "freed memory returned": {"MALLOC_PERTURB_": "0"},  # any MALLOC_ variable keeps malloc as it is
    "strided views": {"FLAGS_use_stride_kernel": "1"},
}


def passl_steps(model_name: str, batch_size: int) -> dict:
    """The functions that are timed on passl's side."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import paddle
    import paddle.nn.functional as F

    import passl
    from passl import runtime

    model = passl.create_model(model_name)
    images, labels = paddle.randn([batch_size, 3, 224, 224]), paddle.randint(0, 1000, [batch_size])
    optimizer = paddle.optimizer.AdamW(1e-4, parameters=model.parameters(), weight_decay=0.05)
    matrix, frozen = paddle.randn([SIDE, SIDE]), []

    def product():
        paddle.matmul(matrix, matrix)

    def train():
        model.train()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.clear_grad()

    def infer():
        model.eval()
        with paddle.no_grad():
            model(images).numpy()

    def infer_frozen():
        if not frozen:
            frozen.append(runtime.freeze(model))
        frozen[0](images).numpy()

    return {"product": product, "train": train, "infer": infer, "frozen": infer_frozen}


def timm_steps(model_name: str, batch_size: int) -> dict:
    """The functions that are timed on timm's side."""
    import timm
    import torch
    import torch.nn.functional as F

    model = timm.create_model(model_name)
    images, labels = torch.randn(batch_size, 3, 224, 224), torch.randint(0, 1000, (batch_size,))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.05)
    matrix = torch.randn(SIDE, SIDE)

    def product():
        torch.matmul(matrix, matrix)

    def train():
        model.train()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    def infer():
        model.eval()
        with torch.inference_mode():
            model(images).numpy()

    return {"product": product, "train": train, "infer": infer}


class Side:
    """A worker process that runs one step on request and answers with the seconds it took."""

    def __init__(self, python: str, name: str, model: str, batch_size: int, environment: dict[str, str] | None = None):
        command = [python, __file__, "--worker", name, "--models", model, "--batch-size", str(batch_size)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if name == "passl" else None,  # Paddle's notes about its executor
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def seconds(self, work: str) -> float:
        time.sleep(REST_SECONDS)
        self.process.stdin.write(work + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise SystemExit(f"the worker stopped while it ran '{work}': {' '.join(self.process.args)}")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def work(name: str, model: str, batch_size: int) -> None:
    """The worker's loop: a word in, the seconds of one step out."""
    steps = {"passl": passl_steps, "timm": timm_steps}[name](model, batch_size)
    for line in sys.stdin:
        begin = time.perf_counter()
        steps[line.strip()]()
        print("seconds", time.perf_counter() - begin, flush=True)


def take_turns(jobs: list[tuple[Side, str]], rounds: int) -> list[list[float]]:
    """Seconds of each job in each round, after a warm-up; in a round the jobs follow each other."""
    for side, what in jobs:
        for _ in range(WARM_UP_STEPS):
            side.seconds(what)
    turns = [[side.seconds(what) for side, what in jobs] for _ in range(rounds)]
    return [list(column) for column in zip(*turns)]


def compare(args) -> list[dict]:
    """One row for each model and kind of work."""
    rows = []
    print(f"{'model':<12} {'work':<8} {'passl':>8} {'timm':>8} {'ratio':>6}   images/s, batch {args.batch_size}")
    for model in args.models:
        ours = Side(sys.executable, "passl", model, args.batch_size)
        theirs = Side(args.peer_python, "timm", model, args.batch_size) if has_timm(args.peer_python) else None
        for what in WORK if rows else ("product", *WORK):
            jobs = [(ours, what)]
            if theirs:
                jobs.append((theirs, "infer" if what == "frozen" else what))
            times = take_turns(jobs, args.rounds)
            amount = 2 * SIDE**3 / 1e9 if what == "product" else args.batch_size
            speeds = [amount / statistics.median(seconds) for seconds in times]
            row = {"model": model, "work": what, "passl": speeds[0]}
            if theirs:
                row["timm"] = speeds[1]
                row["ratio"] = statistics.median(their / our for our, their in zip(*times))
            rows.append(row)
            peer = f"{row['timm']:8.1f} {row['ratio']:6.2f}" if theirs else f"{'-':>8} {'-':>6}"
            print(f"{MODELS.get(model, model):<12} {what:<8} {row['passl']:8.1f} {peer}", flush=True)
        for side in filter(None, (ours, theirs)):
            side.close()
    return rows


def compare_settings(args) -> list[dict]:
    """What the first model loses when one setting is undone."""
    model, rows = args.models[0], []
    sides = [Side(sys.executable, "passl", model, args.batch_size, changes) for changes in SETTINGS.values()]
    print(f"{'setting':<28} {'train':>7} {'infer':>7}   speed relative to all settings, {MODELS.get(model, model)}")
    columns = {what: take_turns([(side, what) for side in sides], args.rounds) for what in EAGER_WORK}
    for number, name in enumerate(SETTINGS):
        row = {"setting": name}
        for what, times in columns.items():
            row[what] = statistics.median(full / other for full, other in zip(times[0], times[number]))
        rows.append(row)
        print(f"{name:<28} {row['train']:7.2f} {row['infer']:7.2f}")
    for side in sides:
        side.close()
    return rows


def has_timm(python: str) -> bool:
    return subprocess.run([python, "-c", "import timm, torch"], capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has torch and timm")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--rounds", type=int, default=7, help="how often the sides take turns")
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="model names that both sides know")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--settings", action="store_true", help="compare the settings of passl.runtime instead")
    parser.add_argument("--worker", choices=["passl", "timm"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args.worker, args.models[0], args.batch_size)
    if not args.settings and not has_timm(args.peer_python):
        print(
            "torch and timm are not installed: pip install torch==2.14.1 torchvision==0.29.1 timm, or name an "
            "interpreter that has them with --peer-python; passl alone is timed"
        )
    rows = compare_settings(args) if args.settings else compare(args)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
