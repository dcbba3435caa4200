# SPDX-License-Identifier: Apache-2.0
"""What a constructor accepts, by its signature, and whether a value from a YAML file fits a type annotation."""

from __future__ import annotations

import collections.abc
import inspect
import types
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

_UNIONS = (Union, getattr(types, "UnionType", Union))
_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_WORDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    type(None): "null",
    dict: "a mapping",
}


class Argument(NamedTuple):
    """One argument of a constructor; ``hint`` is Any where the annotation says nothing that can be checked."""

    hint: Any
    default: Any

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def mismatch(self, value: Any) -> str | None:
        """What is wrong with ``value``, or None; without annotation, a number as default rules out a text."""
        number = isinstance(self.default, (bool, int, float))
        if self.hint is Any and number and isinstance(value, str):
            return f"expected a value like {show(self.default)}, got the text {show(value)}{_unquote(value)}"
        return mismatch(value, self.hint)


def arguments(constructor: Callable[..., Any]) -> tuple[dict[str, Argument], bool]:
    """The arguments by name, and whether any other name is accepted too.

    What a class takes as ``**kwargs`` is looked up in its base classes.
    """
    known: dict[str, Argument] = {}
    if not inspect.isclass(constructor):
        return known, _collect(constructor, known)
    for cls in constructor.__mro__:
        init = cls.__dict__.get("__init__")
        if inspect.isfunction(init) and not _collect(init, known, skip=1):
            return known, False
    return known, constructor.__init__ is not object.__init__


def _collect(function: Callable[..., Any], known: dict[str, Argument], skip: int = 0) -> bool:
    """Add a function's arguments to ``known``; True when it has ``**kwargs``."""
    takes_any = False
    for name, parameter in list(inspect.signature(function).parameters.items())[skip:]:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            known.setdefault(name, Argument(_hint(function, parameter.annotation), parameter.default))
    return takes_any


def _hint(function: Callable[..., Any], annotation: Any) -> Any:
    """The annotation as a type; Any when there is none, or when this Python cannot evaluate it."""
    if annotation is inspect.Parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={"value": annotation})
    try:
        return get_type_hints(holder, globalns=getattr(inspect.unwrap(function), "__globals__", {}))["value"]
    except (NameError, TypeError, AttributeError, SyntaxError):
        return Any


def mismatch(value: Any, hint: Any) -> str | None:
    """What is wrong with ``value`` where ``hint`` is expected, or None.

    An integer is a float, true is no integer, a tuple is written as a list.  Hints of other kinds accept all.
    """
    if fits(value, hint):
        return None
    return f"expected {describe(hint)}, got {show(value)}{_unquote(value) if not fits('', hint) else ''}"


def fits(value: Any, hint: Any) -> bool:
    """Whether ``value`` may stand where ``hint`` is expected."""
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in _UNIONS and args:
        return any(fits(value, arg) for arg in args)
    if origin is Literal:
        return any(value == arg and type(value) is type(arg) for arg in args)
    if hint is None or hint is type(None):
        return value is None
    if origin in (int, float):
        return isinstance(value, (int, origin)) and not isinstance(value, bool)
    if origin in (bool, str):
        return isinstance(value, origin)
    if origin in _LISTS:
        return isinstance(value, (list, tuple)) and _items_fit(value, origin, args)
    if origin in (dict, collections.abc.Mapping):
        return isinstance(value, collections.abc.Mapping)
    return True


def _items_fit(items: Any, origin: Any, args: tuple[Any, ...]) -> bool:
    if origin is tuple and args and args[-1] is not Ellipsis:
        return len(items) == len(args) and all(map(fits, items, args))
    return not args or all(fits(item, args[0]) for item in items)


def describe(hint: Any) -> str:
    """The type in words."""
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin in _UNIONS and args:
        return " or ".join(dict.fromkeys(map(describe, args)))
    if origin is Literal:
        return " or ".join(map(show, args))
    if origin in _LISTS:
        if origin is tuple and args and args[-1] is not Ellipsis:
            return f"a list of {len(args)} values ({', '.join(map(describe, args))})"
        return f"a list ({describe(args[0])} each)" if args and describe(args[0]) != "any value" else "a list"
    return _WORDS.get(type(None) if hint is None else origin, "any value")


def show(value: Any) -> str:
    """The value as in YAML, cut when long."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unquote(value: Any) -> str:
    """A hint for a number that became a text by its quotes."""
    try:
        float(value)
    except (TypeError, ValueError):
        return ""
    return " - remove its quotes" if isinstance(value, str) else ""
