# SPDX-License-Identifier: Apache-2.0
"""ConvNeXt's layouts, written by hand from timm's."""

from __future__ import annotations

import re

import numpy as np
import pytest

from passl.modeling.backbones import ConvNeXt
from passl.weights import load_weights
from passl.weights.convert import normalise, to_layout
from tests.weights.convert.cases import reference, renamed, same

V1, V2 = reference("timm__convnext_tiny"), reference("timm__convnextv2_atto")


def reshaped(arrays, shape_of_grn=(), shape_of_scale=(-1,)):
    """Arrays whose vectors of the two special kinds have another shape, and 1x1 convolutions none."""
    result = {}
    for name, array in arrays.items():
        if ".grn." in name:
            array = array.reshape(*shape_of_grn, -1)
        elif name.endswith(".gamma"):
            array = array.reshape(shape_of_scale)
        elif ".mlp.fc" in name and array.ndim == 4:
            array = array.reshape(array.shape[:2])
        result[name] = array
    return result


BLOCK = r"stages\.(\d)\.blocks\.(\d+)\."
OFFICIAL = (
    (r"stem\.(.*)", r"downsample_layers.0.\1"),
    (r"stages\.(\d)\.downsample\.(.*)", r"downsample_layers.\1.\2"),
    (BLOCK + r"conv_dw\.(.*)", r"stages.\1.\2.dwconv.\3"),
    (BLOCK + r"norm\.(.*)", r"stages.\1.\2.norm.\3"),
    (BLOCK + r"mlp\.fc(\d)\.(.*)", r"stages.\1.\2.pwconv\3.\4"),
    (BLOCK + r"mlp\.grn\.weight", r"stages.\1.\2.grn.gamma"),
    (BLOCK + r"mlp\.grn\.bias", r"stages.\1.\2.grn.beta"),
    (BLOCK + "gamma", r"stages.\1.\2.gamma"),
    (r"head\.norm\.(.*)", r"norm.\1"),
    (r"head\.fc\.(.*)", r"head.\1"),
)


def hugging_face(model):
    layer = model + r".encoder.stages.\1.layers.\2."
    return (
        (r"stem\.0\.(.*)", model + r".embeddings.patch_embeddings.\1"),
        (r"stem\.1\.(.*)", model + r".embeddings.layernorm.\1"),
        (r"stages\.(\d)\.downsample\.(.*)", model + r".encoder.stages.\1.downsampling_layer.\2"),
        (BLOCK + r"conv_dw\.(.*)", layer + r"dwconv.\3"),
        (BLOCK + r"norm\.(.*)", layer + r"layernorm.\3"),
        (BLOCK + r"mlp\.fc(\d)\.(.*)", layer + r"pwconv\3.\4"),
        (BLOCK + r"mlp\.grn\.(.*)", layer + r"grn.\3"),
        (BLOCK + "gamma", layer + "layer_scale_parameter"),
        (r"head\.norm\.(.*)", model + r".layernorm.\1"),
        (r"head\.fc\.(.*)", r"classifier.\1"),
    )


def torchvision(arrays):
    def name(ours):
        ours = re.sub(r"^stem", "features.0", ours)
        ours = re.sub(r"^stages\.(\d)\.downsample", lambda m: f"features.{2 * int(m[1])}", ours)
        ours = re.sub("^" + BLOCK, lambda m: f"features.{2 * int(m[1]) + 1}.{m[2]}.", ours)
        for part, place in (("conv_dw", 0), ("norm", 2), ("mlp.fc1", 3), ("mlp.fc2", 5)):
            ours = re.sub(rf"^(features\.\d\.\d+\.){re.escape(part)}\.", rf"\1block.{place}.", ours)
        ours = ours.replace("head.norm", "classifier.0").replace("head.fc", "classifier.2")
        return re.sub("gamma$", "layer_scale", ours)

    return {name(ours): array for ours, array in reshaped(arrays, shape_of_scale=(-1, 1, 1)).items()}


CASES = {
    "official V1": (renamed(reshaped(V1), OFFICIAL), V1, "official (ConvNeXt)"),
    "official V2": (renamed(reshaped(V2, (1, 1, 1)), OFFICIAL), V2, "official (ConvNeXt)"),
    "hf V1": (renamed(reshaped(V1), hugging_face("convnext")), V1, "hf (ConvNeXt)"),
    "hf V2": (renamed(reshaped(V2, (1, 1, 1)), hugging_face("convnextv2")), V2, "hf (ConvNeXt)"),
    "torchvision": (torchvision(V1), V1, "torchvision (ConvNeXt)"),
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_layout_becomes_timm_s(case):
    foreign, timm, layout = CASES[case]
    normal = normalise(foreign)
    assert normal.layout == layout
    same(normal.arrays, normalise(timm).arrays)


def test_small_models_go_back_to_timm_as_convolutions_and_load_as_linear_layers():
    model = ConvNeXt(depths=[2, 1, 1, 1], dims=[4, 6, 8, 10])
    ours = {f"architecture.{name}": tensor.numpy() for name, tensor in model.state_dict().items()}
    timm = to_layout(ours)
    assert timm["stages.0.blocks.0.mlp.fc1.weight"].shape == (16, 4, 1, 1)
    assert "head.norm.weight" in timm
    other = ConvNeXt(depths=[2, 1, 1, 1], dims=[4, 6, 8, 10])
    report = load_weights(other, timm)
    assert not report.missing and not report.mismatched and not report.unexpected
    same({name: np.asarray(t) for name, t in other.state_dict().items()}, {n[13:]: a for n, a in ours.items()})


def test_larger_models_stay_linear():
    assert (
        to_layout({"architecture." + n: a for n, a in normalise(V1).arrays.items() if not n.startswith("head")})[
            "stages.0.blocks.0.mlp.fc1.weight"
        ].ndim
        == 2
    )
