# SPDX-License-Identifier: Apache-2.0
"""Name maps as data: how another library calls the tensors of a model family, and in which form it keeps them.

The common form between all layouts is timm's: its names, linear weights as [out, in].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

import numpy as np

from passl.utils.errors import CheckpointError

Arrays = dict[str, np.ndarray]
Template = Union[str, Callable[["re.Match[str]"], str]]


@dataclass(frozen=True)
class Rule:
    r"""Renames the entries that ``pattern`` matches as a whole.

    Args:
        pattern: regular expression of the foreign name.
        to: timm's name, a template with ``\1`` or a function of the match; None drops the entry.
        part: (i, n) makes the entry the i-th of n pieces that are joined along the first axis.
        change: turns the foreign array into timm's.
    """

    pattern: str
    to: Template | None
    part: tuple[int, int] | None = None
    change: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Layout:
    """How one library stores one family.

    Args:
        name: the library, as users write it (``hf``, ``torchvision``, ``google``, ...).
        family: which models, for reports.
        rules: tried in order, the first match counts; entries that match none keep their name.
        signature: patterns that must each match some name of a file in this layout.
        absent: patterns that must match none.
        orientation: ``"torch"`` keeps linear weights as [out, in], ``"paddle"`` as [in, out].
        prepare: rearranges the whole mapping before the rules (unstacking, renumbering).
    """

    name: str
    family: str
    rules: tuple[Rule, ...] = ()
    signature: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    orientation: str = "torch"
    prepare: Callable[[Arrays], Arrays] | None = None
    compiled: list[tuple[re.Pattern[str], Rule]] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self):
        self.compiled.extend((re.compile(rule.pattern), rule) for rule in self.rules)

    def fits(self, names: Sequence[str]) -> bool:
        """Whether the names look like this layout."""

        def present(pattern):
            return any(map(re.compile(pattern).fullmatch, names))

        return all(map(present, self.signature)) and not any(map(present, self.absent))

    def rename(self, name: str) -> tuple[str | None, Rule | None]:
        """timm's name of an entry (None: dropped), and the rule that says so (None: no rule, name kept)."""
        for pattern, rule in self.compiled:
            match = pattern.fullmatch(name)
            if match:
                to = match.expand(rule.to) if isinstance(rule.to, str) else rule.to and rule.to(match)
                return to, rule
        return name, None

    def apply(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        """The arrays under timm's names, in timm's form except for the orientation of linear weights.

        Raises:
            CheckpointError: two entries claim one name, or a piece of a joined tensor is missing.
        """
        source = self.prepare(dict(arrays)) if self.prepare else arrays
        result: Arrays = {}
        pieces: dict[str, dict[int, np.ndarray]] = {}
        counts: dict[str, int] = {}
        for name, array in source.items():
            to, rule = self.rename(name)
            if to is None:
                continue
            value = rule.change(array) if rule and rule.change else array
            if rule and rule.part:
                pieces.setdefault(to, {})[rule.part[0]] = value
                counts[to] = rule.part[1]
            elif to in result:
                raise CheckpointError(f"layout {self.name}: two entries would become '{to}', one of them '{name}'")
            else:
                result[to] = value
        for to, found in pieces.items():
            if len(found) != counts[to]:
                raise CheckpointError(
                    f"layout {self.name}: '{to}' needs {counts[to]} pieces, the file has {len(found)}"
                )
            result[to] = np.concatenate([found[i] for i in range(counts[to])], axis=0)
        return result


def parameters(pattern: str, to: str, kinds: str = "weight|bias") -> Rule:
    """A rule for ``pattern.weight`` and ``pattern.bias`` together; both keep the kind."""
    groups = re.compile(pattern).groups
    return Rule(rf"{pattern}\.({kinds})", rf"{to}.\{groups + 1}")


def joined(pattern: str, to: str, names: Sequence[str]) -> tuple[Rule, ...]:
    """Rules that join ``pattern`` with each of ``names`` in place of ``{}`` (q, k, v) to one tensor."""
    groups = re.compile(pattern.replace("{}", "x")).groups
    return tuple(
        Rule(rf"{pattern.replace('{}', name)}\.(weight|bias)", rf"{to}.\{groups + 1}", part=(i, len(names)))
        for i, name in enumerate(names)
    )


def split_bias(pattern: str, to: str, names: Sequence[str]) -> tuple[Rule, ...]:
    """Rules for a joint ``to.qkv.weight`` beside ``to.q_bias`` and ``to.v_bias``; keys have no bias."""
    q, k, v = (pattern.replace("{}", name) for name in names)
    weights = tuple(Rule(rf"{part}\.weight", f"{to}.qkv.weight", part=(i, 3)) for i, part in enumerate((q, k, v)))
    return *weights, Rule(rf"{q}\.bias", f"{to}.q_bias"), Rule(rf"{v}\.bias", f"{to}.v_bias")
