# SPDX-License-Identifier: Apache-2.0
"""What the command-line tools share: arguments, and errors without a traceback."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from passl.utils import distributed
from passl.utils.errors import PasslError


def config_parser(description: str | None, default: str | None = None) -> argparse.ArgumentParser:
    """A parser with ``-c`` (required unless there is a default) and ``-o``, as every tool that reads a config has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    example = default or "configs/cait/cait_s24_224.yaml"
    parser.add_argument(
        "-c", "--config", required=default is None, default=default, metavar="YAML", help=f"e.g. {example}"
    )
    parser.add_argument(
        "-o", "--override", action="append", default=[], metavar="KEY=VALUE",
        help="change one value, e.g. -o epochs=5 -o dataloader.train.batch_size=64; may be given many times",
    )  # fmt: skip
    return parser


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
