# SPDX-License-Identifier: Apache-2.0
"""Rules for what Flax calls ``kernel`` and ``scale``, and keeps the other way round than PyTorch."""

from __future__ import annotations

import numpy as np

from .table import Rule


def dense_kernel(kernel: np.ndarray) -> np.ndarray:
    """[in, out] -> [out, in]."""
    return kernel.T


def conv_kernel(kernel: np.ndarray) -> np.ndarray:
    """[h, w, in, out] -> [out, in, h, w]."""
    return kernel.transpose(3, 2, 0, 1)


def flax_norm(pattern: str, to: str) -> tuple[Rule, ...]:
    """Rules for scale and bias of a norm."""
    return Rule(pattern + "/scale", to + ".weight"), Rule(pattern + "/bias", to + ".bias")


def flax_dense(pattern: str, to: str, kernel=dense_kernel) -> tuple[Rule, ...]:
    """Rules for kernel and bias of a linear layer, or with ``kernel=conv_kernel`` of a convolution."""
    return Rule(pattern + "/kernel", to + ".weight", change=kernel), Rule(pattern + "/bias", to + ".bias")
