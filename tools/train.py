# SPDX-License-Identifier: Apache-2.0
"""Train the model of a config.

python tools/train.py -c configs/cait/cait_s24_224.yaml -o epochs=5 -o dataloader.train.batch_size=64
python tools/train.py -c configs/cait/cait_s24_224.yaml --resume auto
python -m paddle.distributed.launch --devices 0,1,2,3 tools/train.py -c configs/cait/cait_s24_224.yaml
"""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # works in a checkout that is not installed

from passl.engine.cli import config_parser, run_tool
from passl.engine.setup import setup
from passl.engine.trainer import finish, train
from passl.utils.config import get_config
from passl.utils.schema import check_config


def main():
    parser = config_parser(__doc__)
    parser.add_argument("--resume", metavar="auto|DIR", help="go on from the newest intact checkpoint, or from DIR")
    parser.add_argument("--weights", metavar="FILE", help="start from the weights of a file")
    parser.add_argument("--overwrite", action="store_true", help="delete the run that output_dir holds")
    args = parser.parse_args()
    cfg = check_config(get_config(args.config, args.override))
    run = setup(cfg, resume=args.resume, weights=args.weights, overwrite=args.overwrite)
    stopped_by = train(run)
    finish(run, stopped_by)
    return 128 + signal.Signals[stopped_by] if stopped_by else 0


if __name__ == "__main__":
    run_tool(main)
