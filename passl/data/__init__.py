# SPDX-License-Identifier: Apache-2.0
"""From files on disk to batches: data sets, host transforms, samplers, the loader, device transforms."""

from . import batch_transforms, datasets, transforms
from .loader import Loader, eval_loader, train_loader
from .precheck import PrecheckReport, precheck
from .samplers import EpochSampler, EvalSampler

__all__ = [
    "EpochSampler",
    "EvalSampler",
    "Loader",
    "PrecheckReport",
    "batch_transforms",
    "datasets",
    "eval_loader",
    "precheck",
    "train_loader",
    "transforms",
]
