# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Optional, Union

import pytest

from passl.utils.annotations import arguments, describe, fits, mismatch, show


@pytest.mark.parametrize(
    ("value", "hint", "ok"),
    [
        (1, int, True),
        (1.0, int, False),
        (True, int, False),
        (1, float, True),
        (True, float, False),
        ("1e-5", float, False),
        (True, bool, True),
        (1, bool, False),
        ("a", str, True),
        (None, str, False),
        (None, Optional[int], True),
        (2, Optional[int], True),
        ("x", Optional[int], False),
        (None, None, True),
        ("auto", Union[int, Literal["auto"]], True),
        ("all", Union[int, Literal["auto"]], False),
        ("max", Literal["max", "min"], True),
        (1, Literal[True, "x"], False),
        ([1, 2], list[int], True),
        ([1, "2"], list[int], False),
        ([1, 2.5], Sequence[float], True),
        ("ab", Sequence[str], False),
        ([1, 2], tuple[int, int], True),
        ([1, 2, 3], tuple[int, int], False),
        ([1, 2, 3], tuple[int, ...], True),
        ([[1], [2]], list[list[int]], True),
        ({"a": 1}, dict[str, int], True),
        ([], dict, False),
        (object(), Any, True),
        ("anything", pytest.Item, True),
    ],
)
def test_a_value_fits_its_hint(value, hint, ok):
    assert fits(value, hint) is ok
    assert (mismatch(value, hint) is None) is ok


def test_a_mismatch_says_what_was_expected_and_how_to_fix_it():
    assert mismatch("1e-5", float) == "expected a number, got '1e-5' - remove its quotes"
    assert mismatch(None, Union[int, Literal["auto"]]) == "expected an integer or 'auto', got null"
    assert mismatch(True, Optional[int]) == "expected an integer or null, got true"
    assert mismatch("x", tuple[float, float]).startswith("expected a list of 2 values (a number, a number), got 'x'")
    assert describe(Sequence[int]) == "a list (an integer each)"
    assert len(show("x" * 1000)) == 60


class Base:
    def __init__(self, base: float, warmup: int = 0, *, flag: bool = False):
        pass


class Child(Base):
    def __init__(self, final: float = 0.0, warmup: str = "own", **common):
        super().__init__(**common)


class Open:
    def __init__(self, a, **anything):
        pass


class Plain(Base):
    pass


class Odd:
    def __init__(self, a: Unknown = 1, b: int = 2):  # noqa: F821
        pass


def test_arguments_follow_keywords_to_the_base_class():
    known, takes_any = arguments(Child)
    assert list(known) == ["final", "warmup", "base", "flag"] and not takes_any
    assert known["base"].required and not known["final"].required
    assert known["warmup"].hint is str and known["flag"].hint is bool
    assert list(arguments(Plain)[0]) == ["base", "warmup", "flag"]


def test_a_class_with_open_keywords_takes_any():
    assert arguments(Open)[1] and arguments(lambda **k: k)[1]
    assert not arguments(lambda a, b=1: a)[1] and list(arguments(lambda a, b=1: a)[0]) == ["a", "b"]
    assert arguments(type("Empty", (), {})) == ({}, False)


def test_an_annotation_that_cannot_be_evaluated_accepts_all_and_spares_the_others():
    known, _ = arguments(Odd)
    assert known["a"].hint is Any and known["b"].hint is int


def test_without_annotation_a_number_as_default_rules_out_text():
    def build(depth=12, rate=0.1, flag=True, name="x", size=None):
        pass

    known, _ = arguments(build)
    assert known["rate"].mismatch("1e-5") == "expected a value like 0.1, got the text '1e-5' - remove its quotes"
    assert known["flag"].mismatch("maybe") == "expected a value like true, got the text 'maybe'"
    assert known["depth"].mismatch([1, 2]) is None and known["name"].mismatch("y") is None
    assert known["size"].mismatch("y") is None
