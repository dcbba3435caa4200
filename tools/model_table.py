# SPDX-License-Identifier: Apache-2.0
"""Write docs/models.md, the table of all models that passl.create_model knows.

python tools/model_table.py                        new and changed models are counted, the others kept
python tools/model_table.py --again                all models are counted again
python tools/model_table.py --throughput "cait*"   measures these models' images per second on this machine's CPU, small
                                                   ones first; what is measured when it is stopped stays
"""

import argparse
import fnmatch
import math
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # works in a checkout that is not installed

import paddle

from passl.catalogue import config_path, create_model, list_models
from passl.engine.cli import run_tool
from passl.modeling.layers import pair
from passl.utils.config import get_config
from passl.weights.known import known_cards
from passl.weights.save import atomic_file

TABLE = ROOT / "docs" / "models.md"
COLUMNS = ("model", "parameters", "GMACs", "input", "top-1", "weights", "images/s")
NONE = "-"
HEADING = """# Models

`passl.create_model(name)` builds any of these; `passl.list_models("cait*")` lists them by pattern. The table is
written by `python tools/model_table.py`.

- **GMACs**: 10^9 multiply-adds of all matrix products and convolutions that passl computes for one image of the input
  size in evaluation, attention included; nothing else is counted. They may be fewer than published ones: a ViT's last
  block and the attention pooling of CLIP's ResNets serve one token alone.
- **top-1**: published ImageNet-1k accuracy in % of the best known **weights** with this name, in the settings of
  their card (`passl.weights.known`); not measured here.
- **images/s**: measured with `--throughput "*"`, eager, one image at a time, all on one machine: two cores of an AMD
  EPYC with AVX2, where a matrix product reaches 72 GFLOP/s (`benchmarks/cpu_vs_timm.py`); `-` is not measured.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="count the GMACs of all models, not only of new ones")
    parser.add_argument("--throughput", metavar="PATTERN", help="measure the models whose names match")
    args = parser.parse_args()
    # No branch of a model depends on a tensor; translating its functions would take most of the time.
    paddle.jit.ignore_module([module for name, module in sys.modules.items() if name.split(".")[0] == "passl"])
    known = read_table(TABLE) if TABLE.exists() else {}
    rows = {}
    for name in list_models():
        row = {**dict.fromkeys(COLUMNS, NONE), **static_columns(name)}
        old = known.get(name, {})
        same = all(old.get(key) == row[key] for key in ("parameters", "input"))
        row["images/s"] = old.get("images/s", NONE) if same else NONE
        row["GMACs"] = old["GMACs"] if same and not args.again else format_macs(count_macs(name))
        rows[name] = row
        print(*row.values(), flush=True)
    write_table(rows)
    for name in sorted(fnmatch.filter(rows, args.throughput or ""), key=lambda name: float(rows[name]["GMACs"])):
        rows[name]["images/s"] = f"{images_per_second(name):.2f}"
        print(name, rows[name]["images/s"], flush=True)
        write_table(rows)


def write_table(rows: dict[str, dict[str, str]]) -> None:
    """Write the document, all or nothing."""
    with atomic_file(TABLE) as stream:
        stream.write(render(list(rows.values())).encode())
    print(f"wrote {TABLE.relative_to(ROOT)}, {len(rows)} models")


def static_columns(name: str) -> dict[str, str]:
    """What is known about a model without computing anything."""
    return {"model": name, "parameters": f"{count_parameters(lazy_model(name)):,}", **written_columns(name)}


def written_columns(name: str) -> dict[str, str]:
    """What is written about a model: the input in its YAML, the best published accuracy on the cards of its weights."""
    height, width = input_size(name)
    row = {"input": f"{height}x{width}"}
    cards = [card for card in known_cards().values() if card.model == name and card.top1 is not None]
    if cards:
        best = max(cards, key=lambda card: card.top1)
        row["top-1"], row["weights"] = f"{best.top1:.2f}", best.name.partition(".")[2]
    return row


def lazy_model(name: str):
    """The model with its shapes but without its memory."""
    with paddle.LazyGuard():
        model = create_model(name)
    model.eval()
    return model


def input_size(name: str) -> tuple[int, int]:
    """Height and width of the images in pixels, as the model's YAML evaluates it."""
    transforms = get_config(config_path(name)).dataloader.val.dataset.transforms
    return pair(transforms[-1]["size"])


def count_parameters(model) -> int:
    """Parameters without BatchNorm's running statistics, which Paddle counts among them."""
    return sum(p.size for n, p in model.named_parameters() if not n.endswith(("._mean", "._variance")))


def count_macs(name: str) -> int:
    """Multiply-adds for one image, read from the traced graph: nothing is computed."""
    shape = paddle.static.InputSpec([1, 3, *input_size(name)], "float32")
    graph = paddle.jit.to_static(lazy_model(name), input_spec=[shape], full_graph=True)
    return sum(map(macs_of, graph.forward.main_program.global_block().ops))


def macs_of(op) -> int:
    """Multiply-adds of one operation of a graph."""
    kind = op.name()
    if kind == "pd_op.matmul":
        first = op.operand_source(0).shape
        return first[-2 if op.attrs()["transpose_x"] else -1] * math.prod(op.result(0).shape)
    if kind in ("pd_op.conv2d", "pd_op.depthwise_conv2d"):
        return math.prod(op.operand_source(1).shape[1:]) * math.prod(op.result(0).shape)
    return 0


def format_macs(macs: int) -> str:
    return f"{macs / 1e9:.3f}"


def images_per_second(name: str, seconds: float = 3.0) -> float:
    """Images per second on the CPU, one at a time, after one to warm up."""
    paddle.set_device("cpu")
    model = create_model(name)
    model.eval()
    image = paddle.randn([1, 3, *input_size(name)])
    with paddle.no_grad():
        model(image)
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            model(image)
            count += 1
    return count / (time.perf_counter() - start)


def render(rows: list[dict[str, str]]) -> str:
    """The document."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * 4 + "---|---:|"]
    lines += ["| " + " | ".join(row[column] for column in COLUMNS) + " |" for row in rows]
    return HEADING + "\n" + "\n".join(lines) + "\n"


def read_table(path: Path) -> dict[str, dict[str, str]]:
    """The rows of a written table, by model."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [dict(zip(COLUMNS, (cell.strip() for cell in line.strip("|").split("|")))) for line in lines[1:]]
    return {row["model"]: row for row in rows}


if __name__ == "__main__":
    run_tool(main)
