# SPDX-License-Identifier: Apache-2.0
"""Evaluate weights with the evaluators of a config; every image counts exactly once.

    python tools/eval.py -c configs/cait/cait_s24_224.yaml --weights cait_s24_224.safetensors
    python tools/eval.py -c configs/simclr/….yaml --weights output/…/checkpoints/step_00010000 \
        -o 'evaluate.evaluators=[{name: KNN, k: [10, 20]}, {name: LinearProbe}]' --json result.json

Training images are read only by evaluators that need them (kNN, linear probe): dataloader.bank.

Where the weights have a card (beside the file or in its header), its crop, interpolation, image size, normalisation
and norm epsilon rule over the config; -o on a key that the card rules must say the same, or is an error. --no-card
lets the config rule.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # works in a checkout that is not installed

from passl.engine.card import apply_card, find_card
from passl.engine.cli import config_parser, parse_with_weights, run_tool, write_json
from passl.engine.evaluate import evaluate
from passl.engine.setup import setup_evaluation
from passl.utils.config import get_config
from passl.utils.distributed import is_main
from passl.utils.schema import check_config


def main():
    args = parse_with_weights(config_parser(__doc__))
    cfg = check_config(get_config(args.config, args.override), training=False)
    card = find_card(args.weights, ignore=args.no_card)
    if card is not None:
        cfg = apply_card(cfg, card, args.override)
    method, evaluators, val_loader, bank_loader = setup_evaluation(cfg, args.weights)
    begin = time.perf_counter()
    figures = evaluate(method, evaluators, val_loader, bank_loader)
    seconds = time.perf_counter() - begin
    if not is_main():
        return
    images = len(val_loader.dataset)
    print(f"{args.weights} on {images} images ({seconds:.1f} s)")
    print_figures(figures, card, len(val_loader.dataset.classes or ()))
    if args.json:
        result = {"config": args.config, "weights": args.weights, "images": images, **figures}
        of_card = {} if card is None else {"card": card.name, "published_top1": card.top1}
        write_json(args.json, result | of_card | {"seconds": round(seconds, 3)})


def print_figures(figures, card, num_classes):
    """One line for each figure, the accuracy beside the published one where the data have as many classes."""
    width = max(map(len, figures))
    for name, value in figures.items():
        published = ""
        if name == "top1" and card is not None and card.top1 is not None and num_classes == card.num_classes:
            published = f"   published on ImageNet-1k: {card.top1:.2f}, difference {value - card.top1:+.2f}"
        print(f"  {name:<{width}}  {value:9.4f}{published}")


if __name__ == "__main__":
    run_tool(main)
