# SPDX-License-Identifier: Apache-2.0
"""Check configs without data: every key, a trial build of every component, and the parameter count in the header.

python tools/check_configs.py
python tools/check_configs.py configs/cait my_config.yaml
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # works in a checkout that is not installed

from passl.engine.cli import run_tool
from passl.utils.config import config_root, get_config
from passl.utils.errors import ConfigError
from passl.utils.schema import Check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="YAML files or folders (default: all of configs/)")
    args = parser.parse_args()
    files = [file for path in args.paths or [config_root()] for file in find_configs(Path(path))]
    width = max((len(str(file)) for file in files), default=0)
    all_faults = 0
    for file in files:
        count, faults = check_file(file)
        all_faults += len(faults)
        result = "ok" if not faults else f"{len(faults)} problem{'s' if len(faults) > 1 else ''}"
        print(f"{file!s:<{width}}  {'' if count is None else f'{count:,}':>13}  {result}", flush=True)
        for fault in faults:
            print(f"  - {fault}")
    print(f"{len(files)} configs, {all_faults} problems")
    return 1 if all_faults or not files else 0


def find_configs(path: Path) -> list[Path]:
    """The file itself, or the YAML files below a folder without those that only serve as ``_base_``."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*.yaml") if "_base_" not in file.parts)


def check_file(path: Path) -> tuple[int | None, list[str]]:
    """The number of trainable parameters, where the model can be built, and the faults."""
    try:
        cfg = get_config(path)
    except ConfigError as error:
        return None, error.problems
    check = Check(cfg, training="dataloader" in cfg)
    method = check.built.get("model")
    if method is None:
        return None, check.faults
    own = [p for name, p in method.named_parameters() if not name.endswith(("._mean", "._variance"))]
    count = sum(int(p.size) for p in own if not p.stop_gradient)
    frozen = sum(int(p.size) for p in own if p.stop_gradient)  # T2T-ViT's positions are published as parameters
    claim = re.search(r"^# parameters:\s*([\d,]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    claimed = int(claim[1].replace(",", "")) if claim else count
    if claimed not in (count, count + frozen):
        return count, [*check.faults, f"the header claims {claimed:,} parameters, the model has {count:,}"]
    return count, check.faults


if __name__ == "__main__":
    run_tool(main)
