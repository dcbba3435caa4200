# SPDX-License-Identifier: Apache-2.0
"""Where our names differ from timm's: the classifier, which is a layer of its own here (and has no norm).

Backbones keep timm's names.  A family that must differ adds a row; the map is used in both
directions, so each row must be one-to-one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# (family, pattern of a backbone name that only this family has, {our prefix: timm's prefix})
_FAMILIES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("ResNet", r"layer1\.0\.conv1\.weight", {"head.fc": "fc"}),
    ("Swin", r"layers\.0\.blocks\.0\.attn\.(relative_position_bias_table|logit_scale)", {"head.fc": "head.fc"}),
    ("ConvNeXt", r"stages\.0\.blocks\.0\.conv_dw\.weight", {"head.fc": "head.fc", "norm": "head.norm"}),
    (
        "CLIP's ResNet",
        r"stages\.0\.0\.conv1_1x1\.conv\.weight",
        {"head.fc": "head.proj", "attn_pool": "head"},
    ),
    ("EfficientNet", r"blocks\.0\.0\.conv_dw\.weight", {"head.fc": "classifier"}),
    ("RegNet", r"s1\.b1\.conv1\.conv\.weight", {"head.fc": "head.fc"}),
)
_DEFAULT = {"head.fc": "head", "head.fc_dist": "head_dist", "head.fc_aux": "aux_head"}


def _prefixes(names: Iterable[str]) -> dict[str, str]:
    """Our prefix -> timm's, for the family that the names belong to."""
    names = list(names)
    for _, pattern, prefixes in _FAMILIES:
        if any(map(re.compile(pattern).fullmatch, names)):
            return prefixes
    return _DEFAULT


def _replace(names: Iterable[str], prefixes: dict[str, str]) -> dict[str, str]:
    renamed = {}
    for name in names:
        old = max((p for p in prefixes if name.startswith(p + ".")), key=len, default=None)
        renamed[name] = name if old is None else prefixes[old] + name[len(old) :]
    return renamed


def from_timm(names: Iterable[str]) -> dict[str, str]:
    """Our name (without ``architecture.``) for each of timm's."""
    names = list(names)
    return _replace(names, {timm: ours for ours, timm in _prefixes(names).items()})


def to_timm(names: Iterable[str]) -> dict[str, str]:
    """timm's name for each of ours (without ``architecture.``)."""
    names = list(names)
    return _replace(names, _prefixes(names))
