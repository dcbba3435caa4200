# SPDX-License-Identifier: Apache-2.0
"""Evaluate weights with the evaluators of a config; every image counts exactly once.

    python tools/eval.py -c configs/cait/cait_s24_224.yaml --weights cait_s24_224.safetensors
    python tools/eval.py -c configs/simclr/….yaml --weights output/…/checkpoints/step_00010000 \
        -o 'evaluate.evaluators=[{name: KNN, k: [10, 20]}, {name: LinearProbe}]' --json result.json

Training images are read only by evaluators that need them (kNN, linear probe): dataloader.bank.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # works in a checkout that is not installed

from passl.engine.cli import config_parser, run_tool
from passl.engine.evaluate import evaluate
from passl.engine.setup import setup_evaluation
from passl.utils.config import get_config
from passl.utils.distributed import is_main
from passl.utils.schema import check_config


def main():
    parser = config_parser(__doc__)
    parser.add_argument("--weights", metavar="PATH", required=True, help="a weight file or a checkpoint folder")
    parser.add_argument("--json", metavar="PATH", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    cfg = check_config(get_config(args.config, args.override), training=False)
    method, evaluators, val_loader, bank_loader = setup_evaluation(cfg, args.weights)
    begin = time.perf_counter()
    figures = evaluate(method, evaluators, val_loader, bank_loader)
    seconds = time.perf_counter() - begin
    if not is_main():
        return
    width = max(map(len, figures))
    print(f"{args.weights} on {len(val_loader.dataset)} images ({seconds:.1f} s)")
    for name, value in figures.items():
        print(f"  {name:<{width}}  {value:9.4f}")
    if args.json:
        result = {"config": args.config, "weights": args.weights, "images": len(val_loader.dataset), **figures}
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result | {"seconds": round(seconds, 3)}, indent=1) + "\n")
        print(f"written to {args.json}")


if __name__ == "__main__":
    run_tool(main)
