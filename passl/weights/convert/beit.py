# SPDX-License-Identifier: Apache-2.0
"""BEiT as Hugging Face stores it.  The authors' names, of the pre-training too, are timm's and need no table."""

from __future__ import annotations

from .table import Layout, Rule, parameters, split_bias

_HF = r"(?:beit\.)?"
_HF_LAYER = _HF + r"encoder\.layer\.(\d+)\."
_HF_SELF = _HF_LAYER + r"attention\.attention\."
_BLOCK = r"blocks.\1."
_QKV = ("query", "key", "value")
_TABLE = r"relative_position_bias\.relative_position_bias_table"

HF = Layout(
    name="hf",
    family="BEiT",
    signature=(_HF_SELF + r"query\.weight", _HF_SELF + r"value\.bias"),
    absent=(_HF_SELF + r"key\.bias",),
    rules=(
        Rule(_HF + r"embeddings\.(cls|mask)_token", r"\1_token"),
        Rule(_HF + r"embeddings\.position_embeddings", "pos_embed"),
        parameters(_HF + r"embeddings\.patch_embeddings\.projection", "patch_embed.proj"),
        *split_bias(_HF_SELF + "{}", _BLOCK + "attn", _QKV),
        Rule(_HF_SELF + _TABLE, _BLOCK + "attn.relative_position_bias_table"),
        Rule(_HF + r"encoder\." + _TABLE, "rel_pos_bias.relative_position_bias_table"),
        Rule(r".*\.relative_position_index", None),
        parameters(_HF_LAYER + r"attention\.output\.dense", _BLOCK + "attn.proj"),
        parameters(_HF_LAYER + "layernorm_before", _BLOCK + "norm1"),
        parameters(_HF_LAYER + "layernorm_after", _BLOCK + "norm2"),
        parameters(_HF_LAYER + r"intermediate\.dense", _BLOCK + "mlp.fc1"),
        parameters(_HF_LAYER + r"output\.dense", _BLOCK + "mlp.fc2"),
        Rule(_HF_LAYER + "lambda_([12])", r"blocks.\1.gamma_\2"),
        parameters(_HF + r"pooler\.layernorm", "fc_norm"),
        parameters(_HF + "layernorm", "norm"),
        parameters("classifier", "head"),
    ),
)

LAYOUTS = (HF,)
