# SPDX-License-Identifier: Apache-2.0
"""EfficientNet as the efficientnet_pytorch package and torchvision store it.  timm's names need no table."""

from __future__ import annotations

import re

from passl.utils.errors import CheckpointError

from .table import Arrays, Layout, Rule

# Blocks of each stage, by their sum.
_DEPTHS = {
    16: (1, 2, 2, 3, 3, 4, 1),  # B0, Lite0
    21: (1, 3, 3, 4, 4, 5, 1),  # Lite1, Lite2
    23: (2, 3, 3, 4, 4, 5, 2),  # B1, B2
    24: (1, 3, 3, 5, 5, 6, 1),  # Lite3
    26: (2, 3, 3, 5, 5, 6, 2),  # B3
    30: (1, 4, 4, 6, 6, 8, 1),  # Lite4
    32: (2, 4, 4, 6, 6, 8, 2),  # B4
    39: (3, 5, 5, 7, 7, 9, 3),  # B5
    45: (3, 6, 6, 8, 8, 11, 3),  # B6
    55: (4, 7, 7, 10, 10, 13, 4),  # B7
}
_BLOCK = re.compile(r"_blocks\.(\d+)\.(.*)")


def _by_stage(arrays: Arrays) -> Arrays:
    """The package numbers the blocks through; timm counts them within each of the seven stages."""
    total = 1 + max(int(match[1]) for match in map(_BLOCK.fullmatch, arrays) if match)
    if total not in _DEPTHS:
        raise CheckpointError(f"an EfficientNet with {total} blocks is not known; expected {sorted(_DEPTHS)}")
    places = [f"blocks.{stage}.{i}" for stage, depth in enumerate(_DEPTHS[total]) for i in range(depth)]
    return {(f"{places[int(m[1])]}.{m[2]}" if (m := _BLOCK.fullmatch(name)) else name): a for name, a in arrays.items()}


# timm's words for the layers of a block in the first stage, which does not widen, and in the others.
_NARROW = (("depthwise_conv", "conv_dw"), ("bn1", "bn1"), ("project_conv", "conv_pw"), ("bn2", "bn2"))
_WIDE = (
    *(("expand_conv", "conv_pw"), ("bn0", "bn1"), ("depthwise_conv", "conv_dw"), ("bn1", "bn2")),
    *(("project_conv", "conv_pwl"), ("bn2", "bn3")),
)

# https://github.com/lukemelas/EfficientNet-PyTorch, and for Lite https://github.com/ml-illustrated
PACKAGE = Layout(
    name="efficientnet_pytorch",
    family="EfficientNet",
    signature=(r"_conv_stem\.weight", r"_blocks\.0\._depthwise_conv\.weight"),
    prepare=_by_stage,
    rules=(
        Rule(r"_(conv_stem|conv_head)\.(.*)", r"\1.\2"),
        Rule(r"_bn0\.(.*)", r"bn1.\1"),
        Rule(r"_bn1\.(.*)", r"bn2.\1"),
        Rule(r"_fc\.(.*)", r"classifier.\1"),
        Rule(r"(blocks\..*)\._se_(reduce|expand)\.(.*)", r"\1.se.conv_\2.\3"),
        *(Rule(rf"(blocks\.0\.\d+)\._{theirs}\.(.*)", rf"\1.{ours}.\2") for theirs, ours in _NARROW),
        *(Rule(rf"(blocks\.[1-6]\.\d+)\._{theirs}\.(.*)", rf"\1.{ours}.\2") for theirs, ours in _WIDE),
    ),
)


def _tv(rest: str):
    """torchvision counts the stages from 1, timm from 0."""
    return lambda m: f"blocks.{int(m[1]) - 1}.{m[2]}." + m.expand(rest)


def _tv_layers(block: str, *layers: str) -> tuple[Rule, ...]:
    """Rules for the layers of a block in the order of their numbers: ``conv,norm``, or ``se``."""
    rules = []
    for i, layer in enumerate(layers):
        if layer == "se":
            rules += [Rule(rf"{block}{i}\.fc1\.(.*)", _tv(r"se.conv_reduce.\3"))]
            rules += [Rule(rf"{block}{i}\.fc2\.(.*)", _tv(r"se.conv_expand.\3"))]
        else:
            rules += [Rule(rf"{block}{i}\.{k}\.(.*)", _tv(rf"{part}.\3")) for k, part in enumerate(layer.split(","))]
    return tuple(rules)


TORCHVISION = Layout(
    name="torchvision",
    family="EfficientNet",
    signature=(r"features\.0\.0\.weight", r"features\.1\.0\.block\.1\.fc1\.weight"),
    rules=(
        Rule(r"features\.0\.0\.(.*)", r"conv_stem.\1"),
        Rule(r"features\.0\.1\.(.*)", r"bn1.\1"),
        Rule(r"features\.8\.0\.(.*)", r"conv_head.\1"),
        Rule(r"features\.8\.1\.(.*)", r"bn2.\1"),
        Rule(r"classifier\.1\.(.*)", r"classifier.\1"),
        *_tv_layers(r"features\.(1)\.(\d+)\.block\.", "conv_dw,bn1", "se", "conv_pw,bn2"),
        *_tv_layers(r"features\.([2-7])\.(\d+)\.block\.", "conv_pw,bn1", "conv_dw,bn2", "se", "conv_pwl,bn3"),
    ),
)

LAYOUTS = (PACKAGE, TORCHVISION)
