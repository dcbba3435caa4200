# SPDX-License-Identifier: Apache-2.0
"""Attention with learned biases that depend on where a query and a key lie to each other.

Paper: Swin Transformer, ICCV 2021, https://arxiv.org/abs/2103.14030, eq. 4
"""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from .attention import head_width
from .linear import Linear


def relative_position_index(window_size: tuple[int, int], class_token: bool = False) -> np.ndarray:
    """Row of the bias table for every pair of places.

    The row of an offset (dy, dx) from key to query is (dy + h - 1) (2 w - 1) + dx + w - 1.  With a class
    token, which then is place 0, three more rows follow: class to patch, patch to class, class to class.

    Args:
        window_size: rows h and columns w of places.
    Shape: [N, N] int64, query first; N = h * w, one more with the class token.
    """
    height, width = window_size
    y, x = (axis.flatten() for axis in np.mgrid[:height, :width])
    index = (y[:, None] - y + height - 1) * (2 * width - 1) + x[:, None] - x + width - 1
    if class_token:
        index = np.pad(index, [(1, 0), (1, 0)])
        offsets = (2 * height - 1) * (2 * width - 1)
        index[0], index[1:, 0], index[0, 0] = offsets, offsets + 1, offsets + 2
    return index.astype("int64")


def look_up_bias(table: paddle.Tensor, index: paddle.Tensor) -> paddle.Tensor:
    """Biases for pairs of places.

    Shape: table [R, H], index [..., N, N] of its rows -> [..., H, N, N].
    """
    num_places, num_heads = index.shape[-1], table.shape[1]
    bias = paddle.gather(table, index.flatten()).reshape([-1, num_places, num_places, num_heads])
    return bias.transpose([0, 3, 1, 2]).reshape([*index.shape[:-2], num_heads, num_places, num_places])


def split_heads(qkv: paddle.Tensor, num_heads: int) -> list[paddle.Tensor]:
    """q, k and v, [B, H, N, d] each, of the joint projection [B, N, 3 D]."""
    num_tokens, width = qkv.shape[1:]
    qkv = qkv.reshape([-1, num_tokens, 3, num_heads, width // (3 * num_heads)])
    return qkv.transpose([2, 0, 3, 1, 4]).unbind(0)


def biased_attention(
    logits: paddle.Tensor, v: paddle.Tensor, bias: paddle.Tensor | None, mask: paddle.Tensor | None, dropout: nn.Layer
) -> paddle.Tensor:
    """softmax(logits + bias + mask) v, with the heads side by side.

    Args:
        logits: [B, H, N, N].
        v: [B, H, N, d].
        bias: [H, N, N] for all samples, or [B, H, N, N].
        mask: [W, N, N], one for each of the W windows that every image contributes to the batch, in order.
        dropout: layer for the attention weights.
    Shape: [B, N, H * d].
    """
    num_heads, num_tokens = logits.shape[1:3]
    if mask is not None:
        logits = logits.reshape([-1, mask.shape[0], num_heads, num_tokens, num_tokens])
        logits = logits + (mask.unsqueeze(1) if bias is None else bias + mask.unsqueeze(1))
        logits = logits.reshape([-1, num_heads, num_tokens, num_tokens])
    elif bias is not None:
        logits = logits + bias
    x = paddle.matmul(dropout(F.softmax(logits, axis=-1)), v)  # [B, H, N, d]
    return x.transpose([0, 2, 1, 3]).reshape([-1, num_tokens, num_heads * v.shape[-1]])


class QueryValueBiased(nn.Layer):
    """The projections of an attention whose queries and values have a bias and whose keys have none.

    A bias of the keys would add the same to all logits of a query, which the softmax takes away again.

    Args:
        dim: token width D, divisible by ``num_heads``.
        num_heads: number of heads.
        qkv_bias: whether q and v have a bias.
        attn_drop: dropout on the attention weights, in [0, 1).
        proj_drop: dropout on the output, in [0, 1).
    """

    def __init__(self, dim, num_heads, qkv_bias, attn_drop, proj_drop):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_width(dim, num_heads)
        self.qkv = Linear(dim, 3 * dim, bias_attr=False)
        self.q_bias = self.create_parameter([dim], is_bias=True) if qkv_bias else None
        self.v_bias = self.create_parameter([dim], is_bias=True) if qkv_bias else None
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def project(self, x: paddle.Tensor) -> list[paddle.Tensor]:
        """q, k and v, [B, H, N, d] each, of the tokens [B, N, D]."""
        qkv = self.qkv(x)
        if self.q_bias is not None:
            qkv = qkv + paddle.concat([self.q_bias, paddle.zeros_like(self.q_bias), self.v_bias])
        return split_heads(qkv, self.num_heads)
