# SPDX-License-Identifier: Apache-2.0
"""Checks a whole config and reports all its faults at once, before any data set is opened.

A component (a mapping with ``name``) is checked against its constructor's signature and then built, without
allocating weights, so that what the constructor refuses is reported too; every other section is checked
against ``sections.py``; rules that join several keys are in ``rules.py``.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paddle

from .annotations import arguments, describe, mismatch, show
from .config import Config
from .errors import ConfigError, PasslError, did_you_mean
from .registry import DATASETS, OPTIMIZERS, SCHEDULES, SLOTS, Registry
from .rules import RULES, Checked
from .sections import EXPERIMENT, REQUIRED, Component, Key, Section, walk

# Importing these fills the registries.
_CATALOGUES = ("modeling.backbones", "modeling.heads", "losses", "methods", "data", "optim", "engine.evaluate")

# Arguments that the engine passes; here with stand-ins for a trial build.
_PROVIDED: dict[Registry, dict[str, Any]] = {
    OPTIMIZERS: {"parameters": None},
    SCHEDULES: {"base": 1.0, "scale": 1.0, "total_steps": 1_000_000, "steps_per_epoch": 1000},
}

# Keys of PASSL 1 whose successor has quite another name.
_FORMERLY = {
    "AMP": "amp",
    "checkpoint.interval": "checkpoint.save_every",
    "checkpoint.max_keep_ckpts": "checkpoint.keep_last",
    "custom_config": "evaluate",
    "log_config": "log",
    "lr_config": "lr_scheduler",
    "optimizer.grad_clip": "optimizer.clip_norm",
    "optimizer_config": "optimizer.clip_norm",
    "total_iters": "max_steps",
    "use_amp": "amp.enabled",
}


def check_config(cfg: Config, training: bool = True) -> Config:
    """The complete config, with every default filled in.

    Args:
        cfg: what ``get_config`` returned; not changed.
        training: False also accepts a config without what only training needs.
    Raises:
        ConfigError: with every fault there is.
    """
    check = Check(cfg, training)
    if check.faults:
        raise ConfigError(check.faults, source=cfg._source)
    resolved = Config(check.config)._from(cfg._source)
    if resolved.output_dir is None:
        resolved.output_dir = f"output/{Path(cfg._source).stem}"
    return resolved


class Check:
    """All faults of a config, and what its components were built to.

    Args:
        cfg: the config; not changed.
        training: whether what only training needs must be there.
        build: construct components whose arguments are right, without allocating their weights.
    """

    def __init__(self, cfg: Mapping[str, Any], training: bool = True, build: bool = True):
        for catalogue in _CATALOGUES:
            importlib.import_module(f"passl.{catalogue}")
        self.build = build
        self.faults: list[str] = []  # key.path: what is wrong
        self.built: dict[str, Any] = {}  # by key path
        self.config = self.section("", cfg, EXPERIMENT)
        for rule in RULES:
            self.faults += list(rule(Checked(self.config, self.built, self.faults, training)))

    def section(self, path: str, values: Any, section: Section) -> Any:
        """Check ``values``; returns them with defaults."""
        if values is None:
            if section.optional:
                return None
            values = {}
        if not isinstance(values, Mapping):
            self.faults.append(f"{path}: expected a mapping with {_some(section.keys)}, got {show(values)}")
            return values
        for name in values:
            if name not in section.keys:
                self.faults.append(_unknown(_join(path, name), name, section.keys))
        return {
            name: self.entry(_join(path, name), values.get(name, REQUIRED), key) for name, key in section.keys.items()
        }

    def entry(self, path: str, value: Any, key: Key | Component | Section) -> Any:
        """Check one key of a section, REQUIRED standing for one that is not given; returns its value or default."""
        if isinstance(key, Section):
            return self.section(path, None if value is REQUIRED else value, key)
        if value is REQUIRED:
            if key.default is REQUIRED:
                self.faults.append(f"{path}: missing; it is {key.doc}")
                return None
            value = key.default
        elif isinstance(key, Key):
            self.value(path, value, key)
        if isinstance(key, Component):
            return self.components(path, value, key) if key.many else self.optional_component(path, value, key)
        return value

    def value(self, path: str, value: Any, key: Key) -> None:
        problem = mismatch(value, key.hint)
        if problem is None and key.span and not _within(value, key.span):
            problem = f"expected {describe(key.hint)} in {key.span}, got {show(value)}"
        if problem is None and key.pattern and not re.fullmatch(key.pattern, value):
            problem = f"expected {key.doc}, got {show(value)}"
        if problem:
            self.faults.append(f"{path}: {problem}")

    def components(self, path: str, values: Any, key: Component) -> Any:
        if not isinstance(values, list):
            self.faults.append(f"{path}: expected a list of {{name: ...}} ({key.registry.kind}s), got {show(values)}")
            return values
        return [self.component(f"{path}.{i}", value, key.registry) for i, value in enumerate(values)]

    def optional_component(self, path: str, value: Any, key: Component) -> Any:
        if value is None and key.default is None:
            return None
        return self.component(path, value, key.registry, key.extra)

    def component(self, path: str, config: Any, registry: Registry, extra: Mapping[str, Key] | None = None) -> Any:
        """Check a component, and those nested in it, and build it if nothing is wrong.

        Returns it; one with extra keys, which the engine reads one by one, with every default.
        """
        if not isinstance(config, Mapping) or not isinstance(config.get("name"), str):
            self.faults.append(f"{path}: a {registry.kind} is written as {{name: ..., ...}}, got {show(config)}")
            return config
        own = {key: value for key, value in config.items() if key != "name" and key not in (extra or {})}
        extras = {key: self.entry(_join(path, key), config.get(key, REQUIRED), k) for key, k in (extra or {}).items()}
        before = len(self.faults)
        name = config["name"]
        if name in registry:
            self.arguments(path, name, own, registry, known_too=extras)
        else:
            hint = did_you_mean(name, registry) or f" - there are {_some(registry)}"
            self.faults.append(f"{path}.name: no {registry.kind} is called '{name}'{hint}")
        parts = {key: self.slot(_join(path, key), value, SLOTS[key]) for key, value in own.items() if key in SLOTS}
        if len(self.faults) == before and self.build and registry is not DATASETS:
            self.construct(path, registry, name, {**own, **parts})
        return {**config, **(self.defaults(name, registry, config) if extra else {}), **extras}

    def defaults(self, name: str, registry: Registry, config: Mapping[str, Any]) -> dict[str, Any]:
        """The constructor's default for each argument that is not given."""
        known = arguments(registry.get(name))[0] if name in registry else {}
        return {key: a.default for key, a in known.items() if not a.required and key not in config}

    def arguments(self, path: str, name: str, own: Mapping[str, Any], registry: Registry, known_too: Any) -> None:
        """Check a component's arguments against its constructor: unknown, provided, missing, of the wrong type."""
        known, takes_any = arguments(registry.get(name))
        provided = _PROVIDED.get(registry, {})
        settable = [*(key for key in known if key not in provided), *known_too]
        for key, value in own.items():
            if key in provided:
                self.faults.append(f"{path}.{key}: this argument of {name} is computed, remove it")
            elif key in known:
                problem = None if key in SLOTS else known[key].mismatch(value)
                if key in SLOTS and value is None and known[key].required:
                    problem = f"{name} needs this argument, got null"
                if problem:
                    self.faults.append(f"{path}.{key}: {problem}")
            elif not takes_any:
                self.faults.append(_unknown(_join(path, key), key, settable, owner=name))
        for key, argument in known.items():
            if argument.required and key not in own and key not in provided:
                self.faults.append(f"{path}.{key}: missing; {name} needs this argument")

    def slot(self, path: str, value: Any, registry: Registry) -> Any:
        """Check what a slot holds; returns it built."""
        if isinstance(value, list):
            return [self.slot(f"{path}.{i}", item, registry) for i, item in enumerate(value)]
        if value is None:
            return None
        self.component(path, value, registry)
        return self.built.get(path)

    def construct(self, path: str, registry: Registry, name: str, own: Mapping[str, Any]) -> None:
        provided = dict(_PROVIDED.get(registry, {}))
        try:
            with paddle.LazyGuard():
                if "parameters" in provided:
                    provided["parameters"] = paddle.nn.Linear(1, 1).parameters()
                self.built[path] = registry.get(name)(**own, **provided)
        except ConfigError as error:
            self.faults += [f"{path}: {problem}" for problem in error.problems]
        except Exception as error:  # whatever a constructor raises is a fault of the config until shown otherwise
            kind = "" if isinstance(error, (ValueError, PasslError)) else f"{type(error).__name__}: "
            self.faults.append(f"{path}: {name} cannot be built: {kind}{error}")


def _unknown(path: str, key: str, known: Any, owner: str = "") -> str:
    """The fault of a key that does not exist, with where it may be meant to go."""
    former = next((new for old, new in _FORMERLY.items() if path == old or path.startswith(f"{old}.")), None)
    elsewhere = [other for other, _ in walk() if other.rpartition(".")[2] == key]
    if former:
        hint = f" - see '{former}', which replaces it"
    elif elsewhere and not owner:
        hint = f" - did you mean '{elsewhere[0]}'?"
    else:
        hint = did_you_mean(key, known) or f" - there are {_some(known)}"
    return f"{path}: {f'{owner} has no argument' if owner else 'there is no key'} '{key}'{hint}"


def _some(names: Any, most: int = 12) -> str:
    names = [str(name) for name in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "") or "none"


def _within(value: Any, span: str) -> bool:
    """Whether a number lies in a range such as ``(0, 1]``; what is no number passes."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    low, high = map(float, span[1:-1].split(","))
    above = low <= value if span[0] == "[" else low < value
    below = value <= high if span[-1] == "]" else value < high
    return above and below


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else str(key)
