# SPDX-License-Identifier: Apache-2.0
"""Weights to evaluate or to predict with: from a file or a checkpoint folder, with the class names beside them."""

from __future__ import annotations

import json
from pathlib import Path

from passl.methods import Method
from passl.utils.errors import CheckpointError
from passl.utils.log import logger
from passl.weights import load_weights
from passl.weights.safetensors import read_metadata

from .checkpoint import load_checkpoint
from .run import load_model_arrays


def load_trained(method: Method, weights: str, classifies: bool, averaged: bool = True) -> list[str] | None:
    """Set the weights of a method.

    Args:
        method: what the config's model was built to.
        weights: a weight file of any known layout, or a checkpoint folder.
        classifies: the classifier is needed too.
        averaged: of a checkpoint folder that holds an average, take that instead of the trained weights.
    Returns:
        the names of the classes that were trained, in label order, where passl recorded them.
    Raises:
        CheckpointError: the weights do not fit, or lack a classifier that is needed.
    """
    path = Path(weights)
    if path.is_dir():
        checkpoint = load_checkpoint(path)
        arrays = checkpoint.model
        if averaged and "ema/num_updates" in checkpoint.training:
            arrays = {name: checkpoint.training[f"ema/{name}"] for name in arrays}
            logger.info("%s: the averaged weights are used", weights)
        load_model_arrays(method, arrays, weights)
        return checkpoint.state["classes"]
    report = load_weights(method, path)
    logger.info("%s", report)
    if classifies and report.fresh_head:
        fresh = ", ".join(f"{name} ({why})" for name, why in report.fresh_head)
        raise CheckpointError(
            f"{weights} has no classifier for this model: {fresh}. Its answers would be random: set "
            "model.head.num_classes to that of the weights, or evaluate the features alone (KNN, LinearProbe)"
        )
    return stored_classes(path)


def stored_classes(path: Path) -> list[str] | None:
    """The class names that passl wrote into a weight file, if it did."""
    if path.suffix != ".safetensors":
        return None
    metadata = read_metadata(path)
    return json.loads(metadata["classes"]) if "classes" in metadata else None
