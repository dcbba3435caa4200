# SPDX-License-Identifier: Apache-2.0
"""Move weights between libraries; no foreign library is needed, and nothing in the source file is run.

python tools/convert.py deit_small.pth deit_small.safetensors                       to passl's names
python tools/convert.py output/my_run/final.safetensors for_timm.safetensors --to timm
python tools/convert.py ViT-B_16.npz vit.safetensors --model vit_base_patch16_224   checked against a model
python tools/convert.py deit_small.pth deit_small.safetensors --card deit_small_patch16_224.fb_in1k
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # works in a checkout that is not installed

from passl.catalogue import create_model
from passl.engine.cli import run_tool
from passl.utils.errors import CheckpointError, ConfigError
from passl.weights import convert_file, known_card, load_weights, read_card, save_weights
from passl.weights.convert import LAYOUT_NAMES
from passl.weights.convert.files import TARGETS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SRC", help=".safetensors, .pth/.pt/.bin, .npz or .pdparams")
    parser.add_argument("target", metavar="DST", help="the .safetensors file to write")
    parser.add_argument("--from", dest="layout", default="auto", choices=LAYOUT_NAMES, help="whose names SRC has")
    parser.add_argument("--to", default="passl", choices=TARGETS, help="whose names DST gets")
    parser.add_argument("--model", metavar="NAME", help="go through this model: resizes positions, checks every tensor")
    parser.add_argument("--prefix", help="what to cut off in front of SRC's names, e.g. 'student.'")
    parser.add_argument(
        "--ignore-global", action="append", default=[], metavar="MODULE.NAME", help="skip pickled objects of this kind"
    )
    parser.add_argument(
        "--card",
        metavar="NAME",
        help="SRC holds the published weights NAME: they are checked against its model, and its card goes along",
    )
    args = parser.parse_args()
    card = known_card(args.card) if args.card else None
    if card is not None and args.model not in (None, card.model):
        raise ConfigError(
            f"--model is {args.model}, but the weights {card.name} are of the model {card.model}; give --model "
            f"{card.model}, or leave out --card",
            source="convert",
        )
    if args.model or card:
        model = create_model(args.model or card.model)
        report = load_weights(model, args.source, args.layout, prefix=args.prefix, ignore_globals=args.ignore_global)
        print(report)
        if card is not None and report.fresh_head:
            raise CheckpointError(f"{args.source} has no classifier of the {card.num_classes} classes of {card.name}")
        if card is None and args.source.endswith(".safetensors"):
            card = read_card(args.source)  # it travels on, unless the weights become another model's
            card = card if card is not None and card.model == args.model else None
        save_weights(model, args.target, card, args.to)
    else:
        done = convert_file(args.source, args.target, args.layout, args.to, args.prefix, args.ignore_global)
        cut = f", prefix '{done.prefix}'" if done.prefix else ""
        print(f"{args.source}: layout {done.layout}{cut}, {len(done.arrays)} tensors")
        if done.left_out:
            print(f"left out: {len(done.left_out)} tensors outside that prefix, such as {done.left_out[0]}")
    print(f"wrote {args.target}")


if __name__ == "__main__":
    run_tool(main)
