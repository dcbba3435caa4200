# SPDX-License-Identifier: Apache-2.0
"""Models by name.  The names, and all that defines a model, are the YAML files in ``configs/<family>/``."""

from __future__ import annotations

import fnmatch
import functools
from pathlib import Path
from typing import Any

from passl.modeling.backbones import build_backbone
from passl.modeling.heads import build_head
from passl.modeling.model import Model
from passl.utils.config import config_root, get_config
from passl.utils.errors import ConfigError, did_you_mean
from passl.utils.log import logger
from passl.weights import load_weights

FAMILIES = (
    "beit",
    "cait",
    "clip",
    "convmae",
    "convnext",
    "cvt",
    "deit",
    "deit3",
    "dinov2",
    "efficientnet",
    "gmlp",
    "hmlp",
    "lv_vit",
    "levit",
    "mixer",
    "parallel_vit",
    "pvt",
    "pvt_v2",
    "regnet",
    "resmlp",
    "resnet",
    "swin",
    "swin_v2",
    "t2t_vit",
    "vit",
    "xcit",
)


def list_models(pattern: str = "*") -> list[str]:
    """Names that :func:`create_model` knows, e.g. ``list_models("cait*")``, sorted."""
    return sorted(fnmatch.filter(model_configs(), pattern))


def create_model(name: str, weights: str | Path | None = None, num_classes: int | None = None, **architecture) -> Model:
    """Build a model by name.

    Args:
        name: one of :func:`list_models`.
        weights: a file to load, in any layout that ``passl.weights`` reads; None leaves the model untrained.
        num_classes: outputs of the classifier (default: as in the YAML); 0 returns features.
        architecture: arguments of the backbone that replace the YAML's, e.g. ``img_size=384``.
    Raises:
        ConfigError: unknown name, or an argument that the backbone does not have.
    """
    config = get_config(config_path(name)).model
    backbone = build_backbone({**config.architecture, **architecture})
    head: dict[str, Any] = {**config.head, "in_dim": backbone.num_features}
    if num_classes is not None:
        head["num_classes"] = num_classes
    model = Model(backbone, build_head(head))
    if weights is not None:
        logger.info("%s", load_weights(model, weights))
    return model


def config_path(name: str) -> Path:
    """The YAML file that defines the model ``name``."""
    known = model_configs()
    if name not in known:
        hint = did_you_mean(name, known) or " - passl.list_models() names them all"
        raise ConfigError(f"no model is called '{name}'{hint}", source="create_model")
    return known[name]


@functools.cache
def model_configs() -> dict[str, Path]:
    """YAML file by model name."""
    root = config_root()
    return {path.stem: path for family in FAMILIES for path in sorted((root / family).glob("*.yaml"))}
