# SPDX-License-Identifier: Apache-2.0
"""Tokens, maps, and the token that stands before them."""

from __future__ import annotations

import paddle


def as_map(x: paddle.Tensor, grid: tuple[int, int]) -> paddle.Tensor:
    """Tokens [B, N, C], row by row, as a map [B, C, h, w]."""
    return x.transpose([0, 2, 1]).reshape([-1, x.shape[-1], *grid])


def as_tokens(x: paddle.Tensor) -> paddle.Tensor:
    """The inverse of :func:`as_map`."""
    return x.flatten(2).transpose([0, 2, 1])


def prepend(token: paddle.Tensor, x: paddle.Tensor) -> paddle.Tensor:
    """The learned ``token`` [1, P, D] before the tokens ``x`` [B, N, D] of every sample, [B, P + N, D]."""
    return paddle.concat([token.expand([x.shape[0], -1, -1]).astype(x.dtype), x], axis=1)
