# SPDX-License-Identifier: Apache-2.0
"""RegNetY as its authors (pycls), torchvision and Hugging Face store it.  timm's names need no table."""

from __future__ import annotations

from .table import Layout, Rule, parameters

_NORM = "weight|bias|running_mean|running_var|num_batches_tracked"
_PARTS = ("a", "b", "c")  # the three convolutions of a block

_BLOCK = r"s(\d)\.b(\d+)\."

# https://github.com/facebookresearch/pycls
OFFICIAL = Layout(
    name="official",
    family="RegNet",
    signature=(r"s1\.b1\.f\.a\.weight", r"s1\.b1\.f\.a_bn\.weight"),
    rules=(
        Rule(_BLOCK + r"proj\.weight", r"s\1.b\2.downsample.conv.weight"),
        parameters(_BLOCK + "bn", r"s\1.b\2.downsample.bn", _NORM),
        *(Rule(_BLOCK + rf"f\.{p}\.weight", rf"s\1.b\2.conv{i}.conv.weight") for i, p in enumerate(_PARTS, 1)),
        *(parameters(_BLOCK + rf"f\.{p}_bn", rf"s\1.b\2.conv{i}.bn", _NORM) for i, p in enumerate(_PARTS, 1)),
        parameters(_BLOCK + r"f\.se\.f_ex\.0", r"s\1.b\2.se.fc1"),
        parameters(_BLOCK + r"f\.se\.f_ex\.2", r"s\1.b\2.se.fc2"),
    ),
)

_TV_BLOCK = r"trunk_output\.block\d\.block(\d)-(\d+)\."
_HF = r"(?:regnet\.)?"
_HF_BLOCK = _HF + r"encoder\.stages\.(\d)\.layers\.(\d+)\."


def _tv(rest: str):
    """torchvision counts stages from 1 and blocks from 0, timm both from 1."""
    return lambda m: f"s{m[1]}.b{int(m[2]) + 1}." + m.expand(rest)


def _hf(rest: str):
    """Hugging Face counts both from 0."""
    return lambda m: f"s{int(m[1]) + 1}.b{int(m[2]) + 1}." + m.expand(rest)


TORCHVISION = Layout(
    name="torchvision",
    family="RegNet",
    signature=(r"stem\.0\.weight", _TV_BLOCK + r"f\.a\.0\.weight"),
    rules=(
        parameters(r"stem\.0", "stem.conv"),
        parameters(r"stem\.1", "stem.bn", _NORM),
        Rule(_TV_BLOCK + r"proj\.0\.weight", _tv("downsample.conv.weight")),
        Rule(_TV_BLOCK + rf"proj\.1\.({_NORM})", _tv(r"downsample.bn.\3")),
        *(Rule(_TV_BLOCK + rf"f\.{p}\.0\.weight", _tv(f"conv{i}.conv.weight")) for i, p in enumerate(_PARTS, 1)),
        *(Rule(_TV_BLOCK + rf"f\.{p}\.1\.({_NORM})", _tv(rf"conv{i}.bn.\3")) for i, p in enumerate(_PARTS, 1)),
        Rule(_TV_BLOCK + r"f\.se\.(fc[12]\.(?:weight|bias))", _tv(r"se.\3")),
        parameters("fc", "head.fc"),
    ),
)

_PLACES = ((0, 1), (1, 2), (3, 3))  # place in Hugging Face's block, number of timm's convolution

HF = Layout(
    name="hf",
    family="RegNet",
    signature=(_HF + r"embedder\.embedder\.convolution\.weight", _HF_BLOCK + r"layer\.2\.attention\.0\.weight"),
    rules=(
        parameters(_HF + r"embedder\.embedder\.convolution", "stem.conv"),
        parameters(_HF + r"embedder\.embedder\.normalization", "stem.bn", _NORM),
        Rule(_HF_BLOCK + r"shortcut\.convolution\.weight", _hf("downsample.conv.weight")),
        Rule(_HF_BLOCK + rf"shortcut\.normalization\.({_NORM})", _hf(r"downsample.bn.\3")),
        *(Rule(_HF_BLOCK + rf"layer\.{p}\.convolution\.weight", _hf(f"conv{i}.conv.weight")) for p, i in _PLACES),
        *(Rule(_HF_BLOCK + rf"layer\.{p}\.normalization\.({_NORM})", _hf(rf"conv{i}.bn.\3")) for p, i in _PLACES),
        Rule(_HF_BLOCK + r"layer\.2\.attention\.0\.(weight|bias)", _hf(r"se.fc1.\3")),
        Rule(_HF_BLOCK + r"layer\.2\.attention\.2\.(weight|bias)", _hf(r"se.fc2.\3")),
        parameters(r"classifier\.1", "head.fc"),
    ),
)

LAYOUTS = (OFFICIAL, TORCHVISION, HF)
