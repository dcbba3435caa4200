# SPDX-License-Identifier: Apache-2.0
"""Print the most probable classes of images.

    python tools/predict.py cat.jpg photos/ --model deit_small_patch16_224 --weights deit_small.safetensors
    python tools/predict.py photos/ -c output/my_run/config.yaml --weights output/my_run/best.safetensors --topk 3

A folder stands for all images below it. The card of the weights says how images are transformed, and names the model
where --model and -c are left out; without a card, the config's evaluation transforms are taken. Classes have the names
in --labels, or those of the training folders, which passl keeps with the weights, or numbers. Images that cannot be
read are named and skipped, and the exit code is then 1.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # works in a checkout that is not installed

from passl.catalogue import config_path
from passl.engine.card import apply_card, find_card
from passl.engine.cli import config_parser, parse_with_weights, run_tool, write_json
from passl.engine.predict import class_names, find_images, predict
from passl.engine.setup import setup_prediction
from passl.utils.config import get_config
from passl.utils.errors import DataError
from passl.utils.schema import check_config


def main():
    parser = config_parser(__doc__, required=False)
    parser.add_argument("images", nargs="+", metavar="IMAGE_OR_FOLDER")
    parser.add_argument("--model", metavar="NAME", help="a model of the catalogue, in place of -c")
    parser.add_argument("--labels", metavar="FILE", help="names of the classes, one a line, in label order")
    parser.add_argument("--topk", type=int, default=5, metavar="K", help="classes for each image (default 5)")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="images in a batch (default 32)")
    args = parse_with_weights(parser)
    card = find_card(args.weights, ignore=args.no_card)
    model = args.model or (card.model if card is not None and not args.config else None)
    if bool(args.config) == bool(model):
        parser.error("give one of --model and -c (neither is needed where the card of the weights names the model)")
    paths = find_images(args.images)
    cfg = check_config(get_config(args.config or config_path(model), args.override), training=False)
    if card is not None:
        cfg = apply_card(cfg, card, args.override)
    method, transforms, batch_transforms, recorded = setup_prediction(cfg, args.weights)
    found = predict(method, paths, transforms, batch_transforms, args.topk, args.batch_size)
    names = class_names(method.head.num_classes, args.labels, recorded)
    images, unreadable = report(found, names)
    if args.json:
        of_card = {} if card is None else {"card": card.name}
        write_json(args.json, {"weights": args.weights, **of_card, "images": images, "unreadable": unreadable})
    if unreadable:
        raise DataError(f"{len(unreadable)} of {len(paths)} images cannot be read; they are named above")


def report(predictions, names):
    """Print each prediction as it comes; returns the predictions, and the unreadable images, as JSON takes them."""
    images, unreadable = [], []
    for image in predictions:
        if image.error:
            unreadable.append({"path": image.path, "reason": image.error})
            print(f"{image.path}: cannot be read: {image.error}", file=sys.stderr, flush=True)
            continue
        print(image.path)
        classes = []
        for number, probability in zip(image.classes, image.probabilities):
            classes.append({"class": number, "name": names[number], "probability": probability})
            print(f"  {100 * probability:6.2f} %  {names[number]}", flush=True)
        images.append({"path": image.path, "classes": classes})
    return images, unreadable


if __name__ == "__main__":
    run_tool(main)
