# SPDX-License-Identifier: Apache-2.0
"""What the command-line tools share: arguments, and errors without a traceback."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from passl.utils import distributed
from passl.utils.errors import ConfigError, PasslError
from passl.weights.card import card_path


def config_parser(
    description: str | None, default: str | None = None, required: bool = True
) -> argparse.ArgumentParser:
    """A parser with ``-c`` (by default required unless it has a default) and ``-o``, as tools with a config have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    example = default or "configs/cait/cait_s24_224.yaml"
    parser.add_argument(
        "-c", "--config", required=required and default is None, default=default, metavar="YAML", help=f"e.g. {example}"
    )
    parser.add_argument(
        "-o", "--override", action="append", default=[], metavar="KEY=VALUE",
        help="change one value, e.g. -o epochs=5 -o dataloader.train.batch_size=64; may be given many times",
    )  # fmt: skip
    return parser


def parse_with_weights(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, among them ``--weights``, ``--no-card`` and ``--json``.

    Raises:
        ConfigError: the result would replace a folder, the card of the weights, or a file that is read.
    """
    parser.add_argument("--weights", metavar="PATH", required=True, help="a weight file or a checkpoint folder")
    parser.add_argument("--no-card", action="store_true", help="the config rules, not the card of the weights")
    parser.add_argument("--json", metavar="PATH", type=Path, help="also write the result to this file")
    args = parser.parse_args()
    if args.json:
        _check_result_path(args)
    return args


def _check_result_path(args: argparse.Namespace) -> None:
    fault, path = "", args.json.resolve()
    read = [args.weights, args.config, getattr(args, "labels", None), *getattr(args, "images", ())]
    if path == card_path(args.weights).resolve():
        fault = f"{args.json} is where the card of {args.weights} lies: choose another name"
    elif path.is_dir():
        fault = f"{args.json} is a folder: name a file in it, such as {args.json / 'result.json'}"
    elif path in [Path(file).resolve() for file in read if file]:
        fault = f"{args.json} is read, and the result would replace it: choose another name"
    if fault:
        raise ConfigError(fault, source="--json")


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Write the result of a tool, and say so.  Raises ConfigError where the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write {path} ({error.strerror}): choose another place", source="--json") from error
    print(f"written to {path}")


def run_tool(main: Callable[[], int | None]) -> None:
    """Run ``main`` and exit with what it returns; errors meant for people are printed alone, with exit code 1."""
    try:
        code = main()
    except PasslError as error:
        rank = f"[rank {distributed.rank()}] " if distributed.world_size() > 1 else ""
        print(f"\n{rank}error: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        code = 130
    sys.stdout.flush()
    sys.exit(code or 0)
