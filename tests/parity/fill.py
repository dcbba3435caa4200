# SPDX-License-Identifier: Apache-2.0
"""Weights and images that are functions of a name, a shape and a seed.

The goldens beside this file are outputs of reference implementations whose every tensor was filled
by :func:`fill` from its own state-dict name in PyTorch's layout.  Filling a port the same way, with
the reference's names and shapes, replaces a checkpoint.
"""

from __future__ import annotations

import zlib

import numpy as np


def fill(name: str, shape, seed: int = 0) -> np.ndarray:
    """The float32 value of the reference's entry ``name``: normal numbers, scaled by what the entry is.

    ===================================  =================  ==============================================
    name ends with                       value              because
    ===================================  =================  ==============================================
    ``running_var``                      1 + 0.1 |n|        a variance
    ``running_mean``                     0.1 n
    ``.alpha`` / ``.beta``               1 + 0.1 n / 0.1 n  affine layers of ResMLP
    ``.attention_biases``                n                  a table, not a product
    one axis or none, ``weight``         1 + 0.1 n          scales of norms
    one axis or none, else               0.1 n              biases, LayerScale
    ``.kqv.weight``                      n / (4 sqrt(in))   T2T's performer underflows with larger ones
    ``.conv_pw`` / ``.conv_pwl.weight``  1.5 n / sqrt(in)   EfficientNet's activations shrink what they pass,
    ``.conv_expand.bias``                2 + 0.1 n          and its gates do; they are nearly open here
    anything else                        n / sqrt(fan_in)   keeps activations near 1
    ===================================  =================  ==============================================
    """
    shape = tuple(int(s) for s in shape)
    rng = np.random.RandomState(zlib.crc32(f"{seed}:{name}".encode()))
    n = np.asarray(rng.standard_normal(shape))
    if name.endswith("running_var"):
        value = 1.0 + 0.1 * np.abs(n)
    elif name.endswith(("running_mean", ".beta")):
        value = 0.1 * n
    elif name.endswith(".alpha"):
        value = 1.0 + 0.1 * n
    elif name.endswith(".attention_biases"):
        value = n
    elif name.endswith(".conv_expand.bias"):
        value = 2.0 + 0.1 * n
    elif n.ndim <= 1:
        value = 1.0 + 0.1 * n if name.endswith("weight") else 0.1 * n
    else:
        value = n / np.sqrt(np.prod(shape[1:], dtype=np.float64))
        if name.endswith(".kqv.weight"):
            value = 0.25 * value
        elif name.endswith((".conv_pw.weight", ".conv_pwl.weight")):
            value = 1.5 * value
    return value.astype(np.float32)


def white_images(batch: int, size: int, seed: int = 0) -> np.ndarray:
    """[batch, 3, size, size] standard normal noise, taken as already normalised."""
    return np.random.RandomState(seed).standard_normal((batch, 3, size, size)).astype(np.float32)


def coarse_images(batch: int, size: int, seed: int = 0) -> np.ndarray:
    """Like :func:`white_images`, but a 4 x 4 grid of flat colours under weak noise.

    White noise averages out in a global pool, so that two white images look alike to a ResNet; these do not.
    """
    rng = np.random.RandomState(seed)
    colours = rng.standard_normal((batch, 3, 4, 4))
    cell = np.arange(size) * 4 // size
    images = colours[:, :, cell[:, None], cell[None, :]]
    return (images + 0.3 * rng.standard_normal(images.shape)).astype(np.float32)
