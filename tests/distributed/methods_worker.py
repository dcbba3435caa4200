# SPDX-License-Identifier: Apache-2.0
"""Trains a tiny model for ten steps and prints the losses; run with one or two processes."""

import json
import sys
from pathlib import Path

from passl.engine.setup import setup
from passl.engine.trainer import train
from passl.utils.config import get_config
from passl.utils.distributed import is_main
from passl.utils.schema import check_config


def main():
    config, output_dir, *overrides = sys.argv[1:]
    cfg = check_config(get_config(config, [f"output_dir={output_dir}", *overrides]))
    run = setup(cfg)
    train(run)
    if is_main():
        run.writer.close()
        records = [json.loads(line) for line in (Path(output_dir) / "metrics.jsonl").read_text().splitlines()]
        print(json.dumps(records))


if __name__ == "__main__":
    main()
