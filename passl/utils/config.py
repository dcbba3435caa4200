# SPDX-License-Identifier: Apache-2.0
"""Config files: YAML with ``_base_`` files below it and ``-o key=value`` overrides on top.

This module reads and merges; what the values may be is the business of ``schema.py``.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from .errors import ConfigError, did_you_mean
from .yaml_text import dump, parse

MAX_BASE_LEVELS = 3  # the shipped configs use two; a config of your own on top of one is the third


class MissingKey(ConfigError, AttributeError, KeyError):
    """A key was read, as attribute or item, that the config does not have."""

    __str__ = Exception.__str__  # KeyError's would print the quoted repr


class Config(dict):
    """A mapping whose keys are also attributes, at every depth: ``cfg.model.head`` is ``cfg["model"]["head"]``.

    A key that is also a method of ``dict`` (``items``, ``copy``, ...) is reached as an item only.
    """

    _source = "config"  # where it came from, for messages; not a key

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        self.update(*args, **kwargs)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, _wrap(value))

    update = MutableMapping.update  # dict's own would pass by __setitem__

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __missing__(self, key: str) -> Any:
        hint = did_you_mean(key, self) or f" - it has: {', '.join(map(str, self)) or 'no keys'}"
        raise MissingKey(f"there is no key '{key}' here{hint}", source=self._source)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):  # copy and pickle probe for these
            raise AttributeError(key)
        return self[key]

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __delattr__(self, key: str) -> None:
        if key not in self:
            self.__missing__(key)
        del self[key]

    def copy(self) -> Config:
        """An independent copy, nested mappings and lists included."""
        return Config(self)._from(self._source)

    def to_dict(self) -> dict[str, Any]:
        """The same tree in plain dicts and lists."""
        return _unwrap(self)

    def to_yaml(self) -> str:
        """YAML text that ``get_config`` reads back to an equal config."""
        return dump(self.to_dict())

    def differences(self, path: str | os.PathLike[str]) -> list[str]:
        """``key: old -> new`` for each value in which this config differs from the file at ``path``."""
        old, new = _leaves(get_config(path)), _leaves(self)
        return [
            f"{key}: {old.get(key, '(not set)')} -> {new.get(key, '(not set)')}"
            for key in sorted(old.keys() | new.keys())
            if (key in old, old.get(key)) != (key in new, new.get(key))
        ]

    def _from(self, source: str) -> Config:
        object.__setattr__(self, "_source", source)
        return self


def _wrap(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Config(value)
    return [_wrap(item) for item in value] if isinstance(value, (list, tuple)) else value


def _unwrap(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _unwrap(item) for key, item in value.items()}
    return [_unwrap(item) for item in value] if isinstance(value, (list, tuple)) else value


def _leaves(node: Any, path: str = "") -> dict[str, Any]:
    """Values by their full key path; an empty mapping or list counts as a value."""
    children = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    leaves: dict[str, Any] = {}
    for key, child in children:
        leaves.update(_leaves(child, f"{path}.{key}" if path else str(key)))
    return leaves or {path: node}


def get_config(path: str | os.PathLike[str], overrides: Iterable[str] | None = ()) -> Config:
    """Read a config file with its bases and apply overrides, in order.

    Args:
        path: a YAML file; one that does not exist here is looked for among the configs that passl ships.
        overrides: ``"a.b.0.c=value"`` texts; the value is read as YAML. A key that the file leaves at its
            default may be set, one that does not exist is refused.
    Raises:
        ConfigError: no such file, bad YAML, or bad overrides: these all at once, with every other fault of the config.
    """
    file = _find(path, Path())
    try:
        tree = _unwrap(_load(file))  # each alias a copy of its own, so that an override reaches one place
    except RecursionError:
        raise ConfigError("an alias (*name) contains itself, or the nesting is too deep", source=_show(file)) from None
    overrides = [overrides] if isinstance(overrides, str) else list(overrides or ())
    problems, added = _apply(tree, overrides)
    config = Config(tree)._from(_show(file))
    if problems or added:
        _refuse_unknown(config, problems, added)
    return config


def config_root() -> Path:
    """The folder of the configs that passl ships: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


# ---------------------------------------------------------------- files


def _find(name: str | os.PathLike[str], folder: Path) -> Path:
    """The file ``name``, seen from ``folder`` or, failing that, among the shipped configs."""
    path = Path(name)
    shipped = Path(*path.parts[1:]) if path.parts[:1] == ("configs",) else path
    for candidate in (folder / path, config_root() / shipped):
        if candidate.is_file():
            return candidate
    place = (folder / path).parent
    if (folder / path).is_dir():
        names = ", ".join(sorted(f.name for f in (folder / path).glob("*.y*ml"))) or "it has none"
        raise ConfigError(f"{path} is a folder; a config is one YAML file in it: {names}")
    known = [(path.parent / f.name).as_posix() for f in place.glob("*.y*ml")] if place.is_dir() else []
    known += [f"configs/{f.relative_to(config_root()).as_posix()}" for f in config_root().rglob("*.yaml")]
    near = difflib.get_close_matches(path.as_posix(), dict.fromkeys(known), n=3)
    hint = f" - did you mean {' or '.join(map(repr, sorted(near)))}?" if near else ""
    raise ConfigError(f"there is no config file '{path}'{hint}")


def _show(path: Path) -> str:
    """The path as a person would type it: relative to the working directory or to the shipped configs, if below."""
    full = path.resolve()
    for folder, prefix in ((Path.cwd(), Path()), (config_root(), Path("configs"))):
        if folder in full.parents:
            return str(prefix / full.relative_to(folder))
    return str(path)


def _load(path: Path, chain: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The file's tree merged over those of its bases; ``chain`` holds the files that led here."""
    chain = (*chain, path.resolve())
    names = " -> ".join(p.name for p in chain)
    if chain[-1] in chain[:-1]:
        raise ConfigError(f"_base_ goes round in a circle: {names}", source=_show(path))
    if len(chain) > MAX_BASE_LEVELS + 1:
        raise ConfigError(f"_base_ may go {MAX_BASE_LEVELS} levels deep, this is deeper: {names}", source=_show(path))
    tree = _read(path)
    bases = tree.pop("_base_", [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(b, str) for b in bases):
        raise ConfigError(f"_base_ is a file name or a list of them, got {bases!r}", source=_show(path))
    merged: dict[str, Any] = {}
    for base in bases:
        try:
            file = _find(base, path.parent)
        except ConfigError as error:
            raise ConfigError(f"_base_: {error.problems[0]}", source=_show(path)) from None
        merged = merge(merged, _load(file, chain))
    return merge(merged, tree)


def merge(base: Any, child: Any) -> Any:
    """``child`` over ``base``: mappings merge key by key, all else is replaced; so is a component renamed by the child.

    Neither argument is changed.
    """
    if not isinstance(base, Mapping) or not isinstance(child, Mapping):
        return child
    if "name" in child and "name" in base and child["name"] != base["name"]:
        return child
    return {**base, **{key: merge(base[key], value) if key in base else value for key, value in child.items()}}


def _read(path: Path) -> dict[str, Any]:
    where = _show(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read as UTF-8 text: {error}", source=where) from error
    tree = parse(text, where)
    if not isinstance(tree, dict):
        got = "nothing" if tree is None else f"a {type(tree).__name__} ({str(tree)[:40]!r})"
        raise ConfigError(f"a config is a mapping of sections (`model:`, `dataloader:`, ...), got {got}", source=where)
    return tree


# ---------------------------------------------------------------- overrides


def _apply(tree: dict[str, Any], overrides: list[str]) -> tuple[list[str], list[str]]:
    """Set each override in ``tree``; returns what is wrong with them, and the paths that the file did not have."""
    problems, added = [], []
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = [key.strip() for key in path.split(".")]
        try:
            if not equals or not all(keys):
                raise ValueError("expected the form key=value with the key's full path, as in optimizer.clip_norm=1.0")
            if _assign(tree, keys, parse(text), path.strip()):
                added.append(".".join(keys))
        except ConfigError as error:
            problems += [f"-o {override}: {problem}" for problem in error.problems]
        except ValueError as error:
            problems.append(f"-o {override}: {error}")
    return problems, added


def _assign(node: Any, keys: list[str], value: Any, path: str) -> bool:
    """Set ``value`` at ``keys`` below ``node``; True when that adds a key."""
    key: Any = keys[0]
    parent = path.rsplit(".", len(keys))[0]
    if isinstance(node, list):
        if not key.isdigit() or int(key) >= len(node):
            raise ValueError(f"'{parent}' is a list with {len(node)} entries (0 is the first), it has no '{key}'")
        key = int(key)
    elif not isinstance(node, dict):
        raise ValueError(f"'{parent}' is {node!r}: nothing can be set below it")
    if len(keys) == 1:
        added = isinstance(node, dict) and key not in node
        node[key] = value
        return added
    if isinstance(node, dict) and node.get(key) is None:
        node[key] = {}
    return _assign(node[key], keys[1:], value, path)


def _refuse_unknown(config: Config, problems: list[str], added: list[str]) -> None:
    """Raise with all faults of ``config`` when overrides have problems or added a key that is none."""
    from .schema import Check  # it knows every component, and so comes after this module

    def concerns(fault: str) -> bool:
        at = fault.split(": ")[0] + "."
        return any(at.startswith(path + ".") or (path + ".").startswith(at) for path in added)

    if problems or any(map(concerns, Check(config, training=False, build=False).faults)):
        raise ConfigError([*problems, *Check(config, training=False).faults], source=config._source)
