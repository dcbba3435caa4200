# SPDX-License-Identifier: Apache-2.0
"""YAML as configs use it: numbers as in YAML 1.2, nothing that runs code, errors with the line.

Beyond PyYAML: ``1e-5`` is a float; dates and ``1:30`` are texts; ``1.0/255.0`` and ``(0.9, 0.999)``, which
PASSL's files have, are numbers; keys are texts and come once; tags other than YAML's basic ones are errors.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from .errors import ConfigError

_YAML = "tag:yaml.org,2002:"
_NUMBERS = "tag:passl,2025:numbers"
_NUMBER = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_DECIMAL = r"[-+]?[0-9]+\.[0-9]*"
_INT = re.compile(r"[-+]?(?:[0-9][0-9_]*|0[xX][0-9a-fA-F]+|0o[0-7]+|0b[01]+)$")
_FLOAT = re.compile(rf"(?:{_NUMBER}|{_DECIMAL}/{_DECIMAL}|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")
_TUPLE = re.compile(rf"\(\s*{_NUMBER}\s*(?:,\s*{_NUMBER}\s*)*,?\s*\)$")


def dump(tree: Any) -> str:
    """YAML text that ``parse`` reads back to an equal tree."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def parse(text: str, where: str = "") -> Any:
    """YAML text to plain values.  Raises ConfigError that names ``where`` and the line."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r" *\t", line):
            raise ConfigError(_at(where, number, "the indentation has a tab; YAML takes spaces only, replace it"))
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = str(error.problem or error.context)
        if "\\t" in problem:
            problem = "there is a tab before a value; YAML takes spaces there, replace it"
        elif "mapping values" in problem:
            problem = "a second ':' on this line, or wrong indentation; put a text that contains ': ' in quotes"
        raise ConfigError(_at(where, mark.line + 1 if mark else 0, problem)) from None
    except RecursionError:
        raise ConfigError(_at(where, 0, "the nesting is too deep")) from None
    except (yaml.YAMLError, ValueError, ArithmeticError) as error:
        raise ConfigError(_at(where, 0, str(error).replace("\n", " "))) from None


def _at(where: str, line: int, problem: str) -> str:
    place = f"{where}:{line}" if where and line else where
    return f"{place}: {problem}" if place else problem


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == _YAML + "merge":
                continue
            if key.tag != _YAML + "str":
                what = f"'{key.value}'" if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise yaml.MarkedYAMLError(problem=f"the key {what} is no text; quote it", problem_mark=key.start_mark)
            if key.value in lines:
                problem = f"the key '{key.value}' is already set in line {lines[key.value]}; remove one of them"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        return node

    def refuse_tag(self, node):
        problem = f"the tag {node.tag!r} is refused: a config holds texts, numbers, true/false, null, lists, mappings"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)

    def construct_integer(self, node):
        text = self.construct_scalar(node).replace("_", "").lower()
        return int(text, {"0x": 16, "0o": 8, "0b": 2}.get(text.lstrip("+-")[:2], 10))

    def construct_real(self, node):
        text = self.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan")
        over, _, under = text.partition("/")
        return float(over) / float(under or 1)

    def construct_numbers(self, node):
        texts = self.construct_scalar(node).strip("()").split(",")
        return [int(t) if _INT.match(t.strip()) else float(t) for t in texts if t.strip()]


class _Dumper(yaml.SafeDumper):
    """Quotes each text that ``_Loader``, or another YAML reader, would take for something else."""

    def ignore_aliases(self, data):
        return True


_basic = {_YAML + tag for tag in ("str", "bool", "null", "seq", "map")}
_Loader.yaml_constructors = {tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag in _basic}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag in _basic | {_YAML + "merge"}]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor(_YAML + "int", _Loader.construct_integer)
_Loader.add_constructor(_YAML + "float", _Loader.construct_real)
_Loader.add_constructor(_NUMBERS, _Loader.construct_numbers)
_Loader.add_constructor(None, _Loader.refuse_tag)
for _reader in (_Loader, _Dumper):
    _reader.add_implicit_resolver(_YAML + "int", _INT, list("-+0123456789"))
    _reader.add_implicit_resolver(_YAML + "float", _FLOAT, list("-+0123456789."))
    _reader.add_implicit_resolver(_NUMBERS, _TUPLE, ["("])
