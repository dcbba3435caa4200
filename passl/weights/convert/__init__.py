# SPDX-License-Identifier: Apache-2.0
"""Weights between libraries: one module of name maps for each family.

To add a family: write a module with ``LAYOUTS`` (see :mod:`.table`), add it to ``normal.LAYOUTS``;
if our names differ from timm's anywhere but in the backbone, add a row to :mod:`.timm_names`.
"""

from .normal import LAYOUT_NAMES, Normal, normalise, to_layout
from .table import Layout, Rule, joined, parameters

__all__ = ["LAYOUT_NAMES", "Layout", "Normal", "Rule", "joined", "normalise", "parameters", "to_layout"]
