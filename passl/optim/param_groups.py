# SPDX-License-Identifier: Apache-2.0
"""Which parameters are trained, and with which weight decay and learning rate.

Nothing is guessed from names: a backbone says what must not decay (``no_weight_decay()``) and how
deep a parameter lies (``layer_id(name)`` from 0 for embeddings, i + 1 for block i, to
``num_layers`` + 1 for the final norm and everything behind it; ``num_layers`` counts the blocks).
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from paddle import nn

from passl.utils.errors import ConfigError, did_you_mean

NO_DECAY_RULES = ("model", "1d", "none")


def param_groups(
    model: nn.Layer, weight_decay: float = 0.0, layer_decay: float | None = None, no_decay: str = "model"
) -> list[dict[str, Any]]:
    """Groups of trainable parameters that share weight decay and learning-rate multiplier.

    Args:
        model: any layer; every sublayer with ``no_weight_decay`` and ``layer_id`` is asked.
        weight_decay: decay of what is not exempt.
        layer_decay: with d, layer i of L blocks learns at d ** (L + 1 - i) times the rate; parameters
            outside of a backbone (heads) learn at the full rate.  None: one rate for all.
        no_decay: what is exempt from weight decay. "1d": tensors with fewer than two axes and biases
            (MAE, DINO); "model": also what the model names, e.g. position embeddings (timm, BEiT);
            "none": nothing (SwAV, MoCo v2).
    Returns: dicts with ``params``, ``names``, ``weight_decay`` and ``learning_rate`` (a multiplier),
        in the order in which the model holds them.
    """
    if no_decay not in NO_DECAY_RULES:
        raise ValueError(f"no_decay must be one of {', '.join(NO_DECAY_RULES)}, got '{no_decay}'")
    if layer_decay is not None and not 0.0 < layer_decay <= 1.0:
        raise ValueError(f"layer_decay must be in (0, 1], got {layer_decay}")
    exempt = _exempt_names(model) if no_decay == "model" else set()
    multipliers = {} if layer_decay is None else _layer_multipliers(model, layer_decay)
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if parameter.stop_gradient:
            continue
        decays = no_decay == "none" or not (parameter.ndim < 2 or _is_bias(name) or name in exempt)
        key = (weight_decay if decays else 0.0, multipliers.get(name, 1.0))
        group = groups.setdefault(key, {"params": [], "names": [], "weight_decay": key[0], "learning_rate": key[1]})
        group["params"].append(parameter)
        group["names"].append(name)
    return list(groups.values())


def summarize(groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each group: ``tensors``, ``parameters``, ``weight_decay``, ``learning_rate`` (multiplier)."""
    return [
        {
            "tensors": len(group["params"]),
            "parameters": sum(int(p.size) for p in group["params"]),
            "weight_decay": group["weight_decay"],
            "learning_rate": group["learning_rate"],
        }
        for group in groups
    ]


def freeze(model: nn.Layer, patterns: Iterable[str]) -> tuple[list[str], list[nn.Layer]]:
    """Exclude the parameters whose name matches a glob pattern from training.

    Returns their names, and the layers of which nothing is left to train: these belong in evaluation mode, where
    BatchNorm keeps its statistics and there is no dropout.

    Args:
        model: its parameters get ``stop_gradient = True``.
        patterns: such as ``architecture.patch_embed.*``; ``*`` also matches dots.
    Raises:
        ConfigError: a pattern matches nothing.
    """
    named = dict(model.named_parameters())
    patterns = list(patterns)
    idle = [p for p in patterns if not any(fnmatchcase(name, p) for name in named)]
    if idle:
        raise ConfigError(
            [f"'{p}' matches no parameter{did_you_mean(p, named)}" for p in idle], source="freeze patterns"
        )
    frozen = [name for name in named if any(fnmatchcase(name, p) for p in patterns)]
    for name in frozen:
        named[name].stop_gradient = True
    touched = {name.rpartition(".")[0] for name in frozen}
    whole = [
        layer
        for prefix, layer in model.named_sublayers()
        if any(f"{name}.".startswith(f"{prefix}.") for name in touched)
        and all(parameter.stop_gradient for parameter in layer.parameters())
    ]
    return frozen, whole


def _is_bias(name: str) -> bool:
    return name.rpartition(".")[2] == "bias"


def _exempt_names(model: nn.Layer) -> set[str]:
    """Full names that the model or one of its sublayers lists in ``no_weight_decay()``."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, layer in model.named_sublayers(include_self=True)
        if hasattr(layer, "no_weight_decay")
        for name in layer.no_weight_decay()
    }


def _layer_multipliers(model: nn.Layer, decay: float) -> dict[str, float]:
    """Learning-rate multiplier of every parameter that lies in a backbone."""
    multipliers: dict[str, float] = {}
    for prefix, layer in model.named_sublayers(include_self=True):
        if hasattr(layer, "layer_id"):
            for name, _ in layer.named_parameters():
                full_name = f"{prefix}.{name}" if prefix else name
                multipliers[full_name] = decay ** (layer.num_layers + 1 - layer.layer_id(name))
    if not multipliers:
        raise ValueError("layer_decay needs a backbone that numbers its layers (layer_id and num_layers)")
    return multipliers
