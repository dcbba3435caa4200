# SPDX-License-Identifier: Apache-2.0
"""Named constructors: what a YAML's ``name:`` may say, one registry for each kind of component."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .errors import ConfigError, did_you_mean


class Registry:
    """Maps a name to the class or function that builds the component.

    Args:
        kind: what the members are, in the singular; used in messages.
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._members: dict[str, Callable[..., Any]] = {}

    def register(self, name: str | None = None) -> Callable:
        """Decorator that files a class or function under ``name`` (default: its own name)."""

        def add(member):
            key = name or member.__name__
            if self._members.get(key, member) is not member:
                raise ValueError(f"{self.kind} '{key}' is already registered by {self._members[key].__module__}")
            self._members[key] = member
            return member

        return add

    def get(self, name: str) -> Callable[..., Any]:
        """The constructor called ``name``.  Raises ConfigError with the closest known name."""
        if name not in self._members:
            hint = did_you_mean(name, self._members) or f" - known: {', '.join(sorted(self._members))}"
            raise ConfigError(f"no {self.kind} is called '{name}'{hint}")
        return self._members[name]

    def parameters(self, name: str) -> Mapping[str, inspect.Parameter]:
        """The constructor's parameters by name, without ``self``."""
        return inspect.signature(self.get(name)).parameters

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._members))

    def __len__(self) -> int:
        return len(self._members)


BACKBONES = Registry("backbone")
HEADS = Registry("head")
LOSSES = Registry("loss")
METHODS = Registry("method")
DATASETS = Registry("dataset")
TRANSFORMS = Registry("transform")
BATCH_TRANSFORMS = Registry("batch transform")
OPTIMIZERS = Registry("optimizer")
SCHEDULES = Registry("lr schedule")
EVALUATORS = Registry("evaluator")

# Which kind a config key holds.  A component nests others under these keys: as one
# {name: ...} mapping or as a list of them.
SLOTS: dict[str, Registry] = {
    "architecture": BACKBONES,
    "head": HEADS,
    "projector": HEADS,
    "predictor": HEADS,
    "decoder": HEADS,
    "loss": LOSSES,
    "dataset": DATASETS,
    "transforms": TRANSFORMS,
    "views": TRANSFORMS,
    "batch_transforms": BATCH_TRANSFORMS,
    "evaluators": EVALUATORS,
}


def build(config: Mapping[str, Any], registry: Registry, **extra: Any) -> Any:
    """Build the component that ``config`` names, and first those nested in its slots.

    Args:
        config: ``{"name": ..., **arguments}``; never changed.
        registry: where ``name`` is looked up.
        extra: arguments that are not in the config (a parameter list, a bank data set).
    Raises:
        ConfigError: unknown name, unknown or missing argument, or a value the constructor refuses.
    """
    if not isinstance(config, Mapping) or "name" not in config:
        raise ConfigError(f"a {registry.kind} is written as a mapping with a 'name' key, got {config!r}")
    name = config["name"]
    constructor = registry.get(name)
    arguments = {key: _build_slot(key, value) for key, value in config.items() if key != "name"}
    known = inspect.signature(constructor).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    unknown = [k for k in arguments if k not in known and not takes_any]
    required = [k for k, p in known.items() if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    missing = [k for k in required if k not in arguments and k not in extra]
    problems = [f"{name} has no argument '{k}'{did_you_mean(k, known)}" for k in unknown]
    problems += [f"{name} needs the argument '{k}'" for k in missing]
    if problems:
        raise ConfigError(problems, source=f"{registry.kind} {name}")
    return constructor(**arguments, **extra)


def _build_slot(key: str, value: Any) -> Any:
    """Turn ``{name: ...}``, or a list of such, into components where ``key`` is a slot."""
    if key not in SLOTS:
        return value
    if isinstance(value, Mapping) and "name" in value:
        return build(value, SLOTS[key])
    if isinstance(value, list):
        return [_build_slot(key, item) for item in value]
    return value
