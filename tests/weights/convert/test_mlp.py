# SPDX-License-Identifier: Apache-2.0
"""MLP-Mixer's and ResMLP's own names and forms, written by hand from timm's."""

from __future__ import annotations

import re

import pytest

from passl.weights.convert import normalise
from tests.weights.convert.cases import reference, same


def google_mixer(arrays, root):
    leaves = {"weight": "scale", "bias": "bias"}
    modules = {
        "norm1": "LayerNorm_0",
        "norm2": "LayerNorm_1",
        "mlp_tokens.fc1": "token_mixing/Dense_0",
        "mlp_tokens.fc2": "token_mixing/Dense_1",
        "mlp_channels.fc1": "channel_mixing/Dense_0",
        "mlp_channels.fc2": "channel_mixing/Dense_1",
    }
    result = {}
    for name, array in arrays.items():
        module, leaf = name.rsplit(".", 1)
        block = re.fullmatch(r"blocks\.(\d+)\.(.*)", module)
        if block:
            module = f"MixerBlock_{block[1]}/{modules[block[2]]}"
        module = {"stem.proj": "stem", "norm": "pre_head_layer_norm"}.get(module, module)
        if array.ndim > 1:
            array = array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T
            leaf = "kernel"
        else:
            leaf = leaves[leaf] if "orm" in module else leaf
        result[f"{root}{module}/{leaf}"] = array
    return result


def official_resmlp(arrays):
    result = {}
    for name, array in arrays.items():
        name = name.replace("stem.", "patch_embed.").replace("linear_tokens", "attn").replace("mlp_channels", "mlp")
        name = re.sub(r"\.ls([12])$", r".gamma_\1", name)
        result[name] = array.reshape(-1) if name.endswith(("alpha", "beta")) else array
    return result


@pytest.mark.parametrize("root", ["", "params/"])
def test_google_s_mixer_is_read(root):
    timm = reference("timm__mixer_s32_224")
    normal = normalise(google_mixer(timm, root))
    assert normal.layout == "google (MLP-Mixer)"
    same(normal.arrays, normalise(timm).arrays)


def test_the_authors_resmlp_is_read():
    timm = reference("timm__resmlp_12_224")
    official = official_resmlp(timm)
    assert {n: a.shape for n, a in official.items()} == {n: a.shape for n, a in reference("deit__resmlp_12").items()}
    normal = normalise(official)
    assert normal.layout == "official (ResMLP)"
    same(normal.arrays, normalise(timm).arrays)
    assert normal.arrays["norm.alpha"].shape[:2] == (1, 1)
