# SPDX-License-Identifier: Apache-2.0
"""Pre-train on real images without their labels, and see what the features are worth.

    python tools/quickstart.py                 # SimCLR on 5,000 images of Fashion-MNIST, a few minutes on two cores
    python tools/quickstart.py -c configs/quickstart/…yaml -o epochs=5

Prints kNN and linear-probe accuracy beside two baselines that need no training (raw pixels, a backbone with random
weights), draws a map of the features with nearest neighbours, and writes summary.json.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # works in a checkout that is not installed

import numpy as np

from passl.engine.cli import config_parser, run_tool
from passl.engine.evaluate import KNN, EvaluationData, LinearProbe
from passl.engine.run import Run
from passl.engine.setup import setup
from passl.engine.trainer import finish, train
from passl.utils.config import get_config
from passl.utils.schema import check_config
from passl.visualize.embedding import Gallery, embedding_and_neighbours

CONFIG = "configs/quickstart/simclr_fashion_mnist.yaml"
K = 20


def main():
    begin = time.perf_counter()
    parser = config_parser(__doc__, default=CONFIG)
    args = parser.parse_args()
    cfg = check_config(get_config(args.config, args.override))
    run = setup(cfg, overwrite=True)
    raw_pixels = raw_pixel_knn(run)
    random_init = KNN([K])(data_of(run))[f"knn{K}_top1"]
    stopped_by = train(run)
    finish(run, stopped_by)
    if stopped_by:
        return 1
    data = data_of(run)
    knn, linear = KNN([K])(data), LinearProbe()(data)
    picture = draw(run, data, f"{type(run.method).__name__}: {knn[f'knn{K}_top1']:.1f} % kNN, no label was used")
    summary = {
        "knn_top1": knn[f"knn{K}_top1"],
        "linear_top1": linear["linear_top1"],
        "raw_pixel_knn_top1": raw_pixels,
        "random_init_knn_top1": random_init,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    (run.output_dir / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print_summary(run, summary, picture)


def data_of(run: Run) -> EvaluationData:
    """The run's method as it is now, with the images to judge it by."""
    return EvaluationData(run.method, run.val_loader, run.bank_loader)


def raw_pixel_knn(run: Run) -> float:
    """Accuracy in percent of k nearest neighbours on the pixels, the baseline that every representation should beat.

    By Euclidean distance with equal votes, which suits pixels better than the cosine that suits features.
    """
    bank, queries = run.bank_loader.dataset, run.val_loader.dataset
    known, unknown = (np.stack([np.ravel(d.load(i)[0]) / 255.0 for i in range(len(d))]) for d in (bank, queries))
    distance = (known**2).sum(1) - 2 * unknown @ known.T  # [queries, bank], less a constant for each query
    neighbours = bank.labels()[np.argsort(distance, axis=1, kind="stable")[:, :K]]
    predictions = np.array([np.bincount(row).argmax() for row in neighbours])
    return 100.0 * float((predictions == queries.labels()).mean())


def draw(run: Run, data: EvaluationData, title: str) -> Path:
    """The embedding map and nearest neighbours of the validation images."""
    galleries = [
        Gallery(features.values, features.labels, lambda i, loader=loader: loader.dataset.load(i)[0])
        for features, loader in ((data.val, run.val_loader), (data.bank, run.bank_loader))
    ]
    return embedding_and_neighbours(run.output_dir / "embedding.png", *galleries, run.classes, title)


def print_summary(run: Run, summary: dict, picture: Path) -> None:
    """The figures side by side, and where everything lies."""
    rows = [
        ("raw pixels, kNN", summary["raw_pixel_knn_top1"]),
        ("random weights, kNN", summary["random_init_knn_top1"]),
        ("pre-trained, kNN", summary["knn_top1"]),
        ("pre-trained, linear probe", summary["linear_top1"]),
    ]
    print(f"\ntop-1 accuracy on {len(run.val_loader.dataset):,} test images (k = {K}), no label used in pre-training")
    for name, value in rows:
        print(f"  {name:<26} {value:5.1f} %  {'#' * round(value / 2)}")
    print(f"\n{summary['seconds']:.0f} seconds. Pictures: {picture}, {run.output_dir / 'curves.png'}")
    print(f"Figures: {run.output_dir / 'summary.json'}   Weights: {run.output_dir / 'final.safetensors'}")
    print("Next: your own images, docs/getting_started.md")


if __name__ == "__main__":
    run_tool(main)
