# SPDX-License-Identifier: Apache-2.0
"""XCiT as its authors store it."""

from __future__ import annotations

import re

import numpy as np

from .table import Arrays, Layout, parameters

_QKV = re.compile(r"(cls_attn_blocks\.\d+\.attn\.)qkv\.(weight|bias)")


def _split_class_attention(arrays: Arrays) -> Arrays:
    """timm keeps q, k and v of class attention apart, as CaiT does; the authors keep them joined."""
    result: Arrays = {}
    for name, array in arrays.items():
        match = _QKV.fullmatch(name)
        if match:
            axis = int(array.ndim == 2 and array.shape[1] > array.shape[0])  # [in, out] in a Paddle file
            for part, piece in zip("qkv", np.split(array, 3, axis)):
                result[f"{match[1]}{part}.{match[2]}"] = piece
        else:
            result[name] = array
    return result


# https://github.com/facebookresearch/xcit
OFFICIAL = Layout(
    name="official",
    family="XCiT",
    signature=(_QKV.pattern, r"pos_embeder\.token_projection\.weight"),
    prepare=_split_class_attention,
    rules=(parameters(r"pos_embeder\.token_projection", "pos_embed.token_projection"),),
)

LAYOUTS = (OFFICIAL,)
