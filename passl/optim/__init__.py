# SPDX-License-Identifier: Apache-2.0
"""Optimizers, schedules, parameter groups, clipping and weight averaging; importing it registers them all."""

from .clip import clip_grad_norm
from .ema import EMA
from .optimizers import LARS, SGD, AdamW, Optimizer, load_optimizer_state, optimizer_state
from .param_groups import freeze, param_groups, summarize
from .schedules import Constant, Cosine, Linear, Poly, Schedule, Step

__all__ = [
    "EMA",
    "LARS",
    "SGD",
    "AdamW",
    "Constant",
    "Cosine",
    "Linear",
    "Optimizer",
    "Poly",
    "Schedule",
    "Step",
    "clip_grad_norm",
    "freeze",
    "load_optimizer_state",
    "optimizer_state",
    "param_groups",
    "summarize",
]
