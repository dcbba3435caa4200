# SPDX-License-Identifier: Apache-2.0
"""Images per second and core of passl's loader beside torchvision's ImageFolder with the PIL backend.

Both decode the same 500 x 375 JPEGs in one process and one thread, draw RandomResizedCrop(224) and a flip, and
end with a normalised float batch.  CPU seconds are counted, the sides take turns, and the best epoch of each counts.

    python benchmarks/loader_vs_torchvision.py --peer-python PYTHON_WITH_TORCHVISION --json result.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

NUM_IMAGES, BATCH_SIZE, EPOCHS = 96, 32, 5
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def write_images(root: Path) -> None:
    """JPEGs with edges, gradients and a little noise: about 60 KB each at quality 90."""
    rng = np.random.default_rng(0)
    for number in range(NUM_IMAGES):
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), np.int64)
        pixels = np.clip(smooth + rng.normal(0, 8, smooth.shape), 0, 255).astype(np.uint8)
        folder = root / f"class{number % 4}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=90)


def passl_epoch(root: str):
    """A function that runs one epoch of passl's pipeline."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from passl.data import train_loader
    from passl.data.batch_transforms import Normalize
    from passl.data.datasets import ImageFolder
    from passl.data.transforms import RandomHorizontalFlip, RandomResizedCrop

    dataset = ImageFolder(root, [RandomResizedCrop(224), RandomHorizontalFlip()])
    loader, normalize = train_loader(dataset, BATCH_SIZE, num_workers=0), Normalize(MEAN, STD)
    return lambda: [normalize(batch)["image"].shape for batch in loader]


def torchvision_epoch(root: str):
    """A function that runs one epoch of torchvision's pipeline."""
    import torch
    from torchvision import datasets, transforms

    torch.set_num_threads(1)
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    dataset = datasets.ImageFolder(root, transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(dataset, BATCH_SIZE, shuffle=True, drop_last=True)
    return lambda: [images.shape for images, _ in loader]


def measure(side: str, root: str) -> float:
    """Images per CPU second of the best of some epochs."""
    epoch = {"passl": passl_epoch, "torchvision": torchvision_epoch}[side](root)
    epoch()
    seconds = []
    for _ in range(EPOCHS):
        begin = time.process_time()
        epoch()
        seconds.append(time.process_time() - begin)
    return NUM_IMAGES / min(seconds)


def run(python: str, side: str, root: str) -> float | None:
    """``measure`` in a process of its own; None where the library is missing."""
    command = [python, __file__, "--side", side, "--root", root]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        sys.exit(done.stderr)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has torchvision")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--rounds", type=int, default=2, help="how often the sides take turns")
    parser.add_argument("--side", choices=["passl", "torchvision"], help=argparse.SUPPRESS)
    parser.add_argument("--root", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(measure(args.side, args.root))
        return
    with tempfile.TemporaryDirectory() as root:
        write_images(Path(root))
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(run(sys.executable, "passl", root))
            theirs.append(run(args.peer_python, "torchvision", root))
    figures = {"passl_images_per_cpu_second": max(ours)}
    if None in theirs:
        print("torchvision is not installed: pip install torch torchvision, or name an interpreter with --peer-python")
    else:
        figures["torchvision_images_per_cpu_second"] = max(theirs)
        figures["ratio"] = max(ours) / max(theirs)
    print(*(f"{name}: {value:.2f}" for name, value in figures.items()), sep="\n")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
