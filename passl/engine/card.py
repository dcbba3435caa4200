# SPDX-License-Identifier: Apache-2.0
"""The card of published weights rules what a config says about images and norms.

A published figure belongs to one way of resizing, cropping and normalising images and to one epsilon; under any
other, the same weights give another figure without any error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paddle import nn

from passl.catalogue import config_path, list_models
from passl.modeling.layers import pair
from passl.utils.annotations import arguments
from passl.utils.config import Config, get_config
from passl.utils.errors import ConfigError, did_you_mean
from passl.utils.log import logger
from passl.utils.registry import BACKBONES, HEADS, SLOTS, Registry, build
from passl.utils.schema import Check
from passl.utils.yaml_text import parse
from passl.weights import Card, read_card

NORMS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D)
# Besides dropouts, the arguments that a card does not compare: it rules them, or only training sees them.
_FREE = {"img_size", "epsilon", "num_classes", "init_std", "init_scale", "zero_init_residual"}


def find_card(weights: str, ignore: bool = False) -> Card | None:
    """The card of a weight file; None where there is none, for a checkpoint folder, or where it is to be ignored."""
    if not Path(weights).is_file():
        return None
    if ignore:
        logger.info("--no-card: a card of %s is ignored, the config rules", weights)
        return None
    return read_card(weights)


def apply_card(cfg: Config, card: Card, overrides: Sequence[str] = ()) -> Config:
    """The config under which the card's figure was published; one line of the log says what it takes from the card.

    Transforms and normalisation of ``dataloader.val`` and ``dataloader.bank`` become the card's, and so do
    ``img_size`` and ``epsilon`` of a backbone that has these arguments.  ``dataloader.train``, which evaluation does
    not read, is left out.

    Args:
        cfg: what ``check_config`` returned; not changed.
        card: of the weights.
        overrides: the user's ``key=value`` texts.
    Raises:
        ConfigError: the card is of another model than the config builds, or contradicts an override.
    """
    values = ruled_values(cfg, card)
    before = {key: wording(key, _current(cfg, key)) for key in values}
    differing = [key for key, value in values.items() if before[key] != wording(key, value)]
    source = f"{cfg._source} with the card {card.name}"
    if problems := [*misfits(cfg, card), *conflicts(differing, values, overrides)]:
        raise ConfigError(problems, source)
    ruled = cfg.copy()
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        _at(ruled, section)[name] = value
    ruled.dataloader.train = None
    check = Check(ruled, training=False)
    if problems := check.faults or list(other_norms(check.built["model.architecture"], card)):
        raise ConfigError(problems, source)
    replaced = ", ".join(f"{key} {before[key]}" for key in differing)
    replaced = f"instead of the config's {replaced}" if replaced else "the config says the same"
    logger.info("the card %s rules: %s; %s", card.name, summary(card), replaced)
    return Config(check.config)._from(cfg._source)


def summary(card: Card) -> str:
    """What a card decides, in words."""
    return (
        f"{card.img_size} pixels, crop fraction {card.crop_fraction:g} ({card.crop_mode}), {card.interpolation}, "
        f"mean {_numbers(card.mean)}, std {_numbers(card.std)}, norm epsilon {card.norm_eps:g}"
    )


def ruled_values(cfg: Config, card: Card) -> dict[str, Any]:
    """The card's values by the key paths of the config."""
    values: dict[str, Any] = {}
    for split in ("val", "bank"):
        if cfg.dataloader[split] is not None:
            values[f"dataloader.{split}.dataset.transforms"] = card.transforms()
            values[f"dataloader.{split}.batch_transforms"] = card.batch_transforms()
    known, _ = arguments(BACKBONES.get(cfg.model.architecture.name))
    for argument, value in {"img_size": card.img_size, "epsilon": card.norm_eps}.items():
        if argument in known:
            values[f"model.architecture.{argument}"] = value
    return values


def wording(key: str, value: Any) -> str:
    """A ruled value in words that are the same for all its spellings."""
    name = key.rpartition(".")[2]
    if name in SLOTS:
        return ", ".join(repr(build(section, SLOTS[name])) for section in value or ()) or "nothing"
    return "x".join(map(str, pair(value))) if name == "img_size" else repr(float(value))


def misfits(cfg: Config, card: Card) -> Iterator[str]:
    """Why the card is not that of the config's model, if it is not."""
    head = cfg.model.get("head") or {}
    if head.get("num_classes", card.num_classes) != card.num_classes:
        yield (
            f"model.head.num_classes: is {head['num_classes']}, but the weights have {card.num_classes} classes; "
            f"set it to {card.num_classes}, or fine-tune first (tools/train.py --weights)"
        )
    if card.model not in list_models():
        if card.model != Path(cfg._source).stem:
            hint = did_you_mean(card.model, list_models())
            yield f"model: the card is of '{card.model}', which is neither in the catalogue nor this config{hint}"
        return
    path = config_path(card.model)
    theirs = get_config(path).model
    for part, registry in (("architecture", BACKBONES), ("head", HEADS)):
        if part in cfg.model and cfg.model[part] is not None:
            for name, here, there in _differences(cfg.model[part], theirs[part], registry):
                yield (
                    f"model.{part}.{name}: is {here}, but {there} in '{card.model}', the model of the weights; "
                    f"use -c configs/{path.parent.name}/{path.name}"
                )


def conflicts(differing: Sequence[str], values: Mapping[str, Any], overrides: Sequence[str]) -> Iterator[str]:
    """The overrides after which the config still says something else than the card."""
    for key in differing:
        for override in overrides:
            if _sets(override, key):
                yield (
                    f"-o {override}: contradicts the card, which says {wording(key, values[key])} for {key}; leave it "
                    "out, or give --no-card and the config rules"
                )


def other_norms(backbone: nn.Layer, card: Card) -> Iterator[str]:
    """The fault of a model whose norms have another epsilon than the card, where no argument sets it."""
    if "epsilon" in arguments(type(backbone))[0]:
        return
    found = {layer._epsilon for layer in backbone.sublayers() if isinstance(layer, NORMS)}
    if found - {card.norm_eps}:
        yield (
            f"model.architecture: the norms of {type(backbone).__name__} have epsilon {_numbers(sorted(found))}, which "
            f"no argument changes, but the card says {card.norm_eps:g}; correct the card, or give --no-card"
        )


def _differences(ours: Config, theirs: Config, registry: Registry) -> Iterator[tuple[str, Any, Any]]:
    """Argument, our value and theirs, wherever two components differ in what they compute."""
    if ours.name != theirs.name:
        yield "name", ours.name, theirs.name
        return
    known, _ = arguments(registry.get(ours.name))
    for name, argument in known.items():
        here, there = (_plain(config.get(name, argument.default)) for config in (ours, theirs))
        if here != there and name not in _FREE and "drop" not in name:
            yield name, here, there


def _sets(override: str, key: str) -> bool:
    """Whether an override gives a value to ``key``, to a part of it, or to a mapping that has it."""
    path, _, text = override.partition("=")
    path = ".".join(part.strip() for part in path.split("."))
    if f"{path}.".startswith(f"{key}."):
        return True
    return key.startswith(f"{path}.") and _at(parse(text), key[len(path) + 1 :]) is not None


def _at(node: Any, path: str) -> Any:
    """The value at a key path, or None where the mapping does not go that far."""
    for name in path.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _current(cfg: Config, key: str) -> Any:
    """The config's value of a ruled key, which for an argument of the backbone may be its default."""
    section, _, name = key.rpartition(".")
    if section == "model.architecture":
        known, _ = arguments(BACKBONES.get(cfg.model.architecture.name))
        return cfg.model.architecture.get(name, known[name].default)
    return _at(cfg, key)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)
