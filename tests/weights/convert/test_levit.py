# SPDX-License-Identifier: Apache-2.0
"""Layouts of LeViT, written by hand from timm's."""

from __future__ import annotations

import re

import numpy as np
import pytest

from passl.weights.convert import normalise, to_layout
from tests.weights.convert.cases import reference, same

DEPTHS = (2, 3, 4)  # of levit_128s
LEVIT = reference("timm__levit_128s")


def official(name: str) -> str:
    """The authors' name for timm's: branches are counted through, attention and MLP each."""
    name = re.sub(r"stem\.conv(\d)", lambda m: f"patch_embed.{2 * int(m[1]) - 2}", name).replace(".linear.", ".c.")
    before = [0, 2 * DEPTHS[0] + 2, 2 * DEPTHS[0] + 2 * DEPTHS[1] + 4]
    match = re.match(r"stages\.(\d)\.(downsample|blocks\.(\d))\.(attn|attn_downsample|mlp)\.", name)
    if match is None:
        return re.sub(r"(head|head_dist)\.c\.", r"\1.l.", name)
    place = before[int(match[1])] + (2 * int(match[3]) if match[3] else -2) + (match[4] == "mlp")
    rest = (
        name[match.end() :].replace("proj.ln", "proj.1").replace("q.ln", "q.1").replace("ln1", "0").replace("ln2", "2")
    )
    return f"blocks.{place}.{'' if match[4] == 'attn_downsample' else 'm.'}{rest}"


def hugging_face(name: str) -> str:
    """Hugging Face's name: as the authors', but by stages, a halving at the end of the one before."""
    match = re.match(r"stages\.(\d)\.(downsample|blocks\.(\d))\.(attn|attn_downsample|mlp)\.", name)
    name = name.replace(".bn.", ".batch_norm.")
    if match is None:
        name = re.sub(r"stem\.conv(\d)\.", r"levit.patch_embeddings.embedding_layer_\1.", name)
        name = name.replace(".linear.", ".convolution.") if "embedding" in name else name
        return name.replace("head_dist.", "classifier_distill.").replace("head.", "classifier.")
    stage = int(match[1]) - (match[3] is None)
    place = (2 * int(match[3]) if match[3] else 2 * DEPTHS[stage]) + (match[4] == "mlp")
    rest = name[match.end() :].replace("qkv.", "queries_keys_values.").replace("kv.", "keys_values.")
    rest = rest.replace("q.ln", "queries").replace("proj.ln", "projection")
    rest = rest.replace("ln1", "linear_up").replace("ln2", "linear_down").replace("queries_keys_keys", "queries_keys")
    wrapped = "" if match[4] == "attn_downsample" else "module."
    return f"levit.encoder.stages.{stage}.layers.{place}.{wrapped}{rest}"


@pytest.mark.parametrize(("convert", "layout"), [(official, "official (LeViT)"), (hugging_face, "hf (LeViT)")])
def test_layouts_come_back_as_timms(convert, layout):
    foreign = {convert(name): array for name, array in LEVIT.items()}
    assert len(foreign) == len(LEVIT)
    index = next(name for name in foreign if name.endswith("attention_biases")).replace("biases", "bias_idxs")
    normal = normalise({**foreign, index: np.zeros([4, 4], "int64")})
    assert normal.layout == layout
    ours = {n if n.startswith("head.") else f"architecture.{n}": a for n, a in normal.arrays.items()}
    same({n: a for n, a in to_layout(ours).items() if not n.endswith("bias_idxs")}, LEVIT)


def test_official_names_are_the_real_ones():
    assert official("stages.0.blocks.1.mlp.ln2.linear.weight") == "blocks.3.m.2.c.weight"
    assert official("stages.1.downsample.attn_downsample.q.ln.bn.bias") == "blocks.4.q.1.bn.bias"
    assert official("stages.1.downsample.mlp.ln1.bn.bias") == "blocks.5.m.0.bn.bias"
    assert official("stages.2.blocks.0.attn.attention_biases") == "blocks.14.m.attention_biases"
    assert official("head_dist.linear.weight") == "head_dist.l.weight"
