# SPDX-License-Identifier: Apache-2.0
"""RegNetY's layouts, written by hand from timm's."""

from __future__ import annotations

import re

import pytest

from passl.weights.convert import normalise
from tests.weights.convert.cases import reference, same

TIMM = reference("timm__regnety_016")


def official(ours):
    ours = re.sub(r"downsample\.conv\.", "proj.", ours).replace("downsample.bn.", "bn.")
    for i, letter in enumerate("abc", 1):
        ours = ours.replace(f".conv{i}.conv.", f".f.{letter}.").replace(f".conv{i}.bn.", f".f.{letter}_bn.")
    return ours.replace(".se.fc1.", ".f.se.f_ex.0.").replace(".se.fc2.", ".f.se.f_ex.2.")


def torchvision(ours):
    ours = ours.replace("stem.conv.", "stem.0.").replace("stem.bn.", "stem.1.").replace("head.fc.", "fc.")
    ours = re.sub(r"^s(\d)\.b(\d+)", lambda m: f"trunk_output.block{m[1]}.block{m[1]}-{int(m[2]) - 1}", ours)
    ours = ours.replace("downsample.conv.", "proj.0.").replace("downsample.bn.", "proj.1.")
    for i, letter in enumerate("abc", 1):
        ours = ours.replace(f".conv{i}.conv.", f".f.{letter}.0.").replace(f".conv{i}.bn.", f".f.{letter}.1.")
    return ours.replace(".se.", ".f.se.")


def hugging_face(ours):
    words = {"conv": "convolution", "bn": "normalization"}
    ours = re.sub(r"^stem\.(conv|bn)", lambda m: f"regnet.embedder.embedder.{words[m[1]]}", ours)
    ours = re.sub(r"^s(\d)\.b(\d+)", lambda m: f"regnet.encoder.stages.{int(m[1]) - 1}.layers.{int(m[2]) - 1}", ours)
    ours = re.sub(r"downsample\.(conv|bn)", lambda m: f"shortcut.{words[m[1]]}", ours)
    places = {"1": 0, "2": 1, "3": 3}
    ours = re.sub(r"\.conv(\d)\.(conv|bn)", lambda m: f".layer.{places[m[1]]}.{words[m[2]]}", ours)
    ours = re.sub(r"\.se\.fc(\d)", lambda m: f".layer.2.attention.{2 * int(m[1]) - 2}", ours)
    return ours.replace("head.fc.", "classifier.1.")


@pytest.mark.parametrize(
    ("rename", "layout"),
    [(official, "official (RegNet)"), (torchvision, "torchvision (RegNet)"), (hugging_face, "hf (RegNet)")],
)
def test_a_layout_becomes_timm_s(rename, layout):
    foreign = {rename(name): array for name, array in TIMM.items()}
    assert len(foreign) == len(TIMM)
    normal = normalise(foreign)
    assert normal.layout == layout
    same(normal.arrays, normalise(TIMM).arrays)
