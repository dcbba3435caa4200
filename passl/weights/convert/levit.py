# SPDX-License-Identifier: Apache-2.0
"""LeViT as its authors and Hugging Face store it: a list of branches, where timm has blocks and halvings."""

from __future__ import annotations

import re

from .table import Arrays, Layout, Rule, parameters

_NORM = "weight|bias|running_mean|running_var|num_batches_tracked"
_PLACE = re.compile(r"(?:stages\.(\d+)\.layers|blocks)\.(\d+)\.(.*)")


def _in_blocks(arrays: Arrays) -> Arrays:
    """The branches as timm's blocks: an attention opens a block, an MLP belongs to what came before it.

    An attention without ``qkv`` halves the map and opens a stage.
    """
    branches: dict[tuple[int, int], list[tuple[str, str]]] = {}
    result: Arrays = {}
    for name, array in arrays.items():
        match = _PLACE.fullmatch(name)
        if match is None:
            result[name] = array
        else:
            branches.setdefault((int(match[1] or 0), int(match[2])), []).append((name, match[3]))
    stage, block, target = 0, -1, ""
    for place in sorted(branches):
        rests = [rest for _, rest in branches[place]]
        if any(rest.startswith("kv.") for rest in rests):
            stage, block, target = stage + 1, -1, f"stages.{stage + 1}.downsample."
            part = "attn_downsample."
        elif any(rest.startswith("qkv.") for rest in rests):
            block += 1
            target, part = f"stages.{stage}.blocks.{block}.", "attn."
        else:
            part = "mlp."
        for name, rest in branches[place]:
            result[target + part + rest] = arrays[name]
    return result


def _renamed(rules: tuple[Rule, ...]):
    """A ``prepare`` that first gives branches timm's words by ``rules``, then brings them into blocks."""
    words = Layout(name="", family="", rules=rules)

    def prepare(arrays: Arrays) -> Arrays:
        return _in_blocks({words.rename(name)[0] or name: array for name, array in arrays.items()})

    return prepare


def _both(pattern: str, to: str, linear: str, norm: str) -> tuple[Rule, Rule]:
    """Rules for a linear layer or convolution and the BatchNorm next to it."""
    return (
        Rule(rf"{pattern}\.{linear}\.(weight|bias)", rf"{to}.linear.\{re.compile(pattern).groups + 1}"),
        parameters(rf"{pattern}\.{norm}", f"{to}.bn", _NORM),
    )


_BRANCH = r"(blocks\.\d+)\."
_STEM = {0: 1, 2: 2, 4: 3, 6: 4}  # the authors count activations too

# https://github.com/facebookresearch/LeViT
OFFICIAL = Layout(
    name="official",
    family="LeViT",
    signature=(r"patch_embed\.0\.c\.weight", r"blocks\.0\.m\.qkv\.c\.weight"),
    rules=(
        *(rule for i, number in _STEM.items() for rule in _both(rf"patch_embed\.{i}", f"stem.conv{number}", "c", "bn")),
        *_both("(head|head_dist)", r"\1", "l", "bn"),
    ),
    prepare=_renamed(
        (
            *_both(_BRANCH + r"(?:m\.)?(qkv|kv)", r"\1.\2", "c", "bn"),
            *_both(_BRANCH + r"q\.1", r"\1.q.ln", "c", "bn"),
            *_both(_BRANCH + r"(?:m\.)?proj\.1", r"\1.proj.ln", "c", "bn"),
            *_both(_BRANCH + r"m\.0", r"\1.ln1", "c", "bn"),
            *_both(_BRANCH + r"m\.2", r"\1.ln2", "c", "bn"),
            Rule(_BRANCH + r"(?:m\.)?(attention_biases|attention_bias_idxs)", r"\1.\2"),
        )
    ),
)

_HF = r"(?:levit\.)?"
_HF_BRANCH = _HF + r"encoder\.(stages\.\d+\.layers\.\d+)\.(?:module\.)?"
_HF_NAMES = (
    ("queries_keys_values", "qkv"),
    ("keys_values", "kv"),
    ("queries", "q.ln"),
    ("projection", "proj.ln"),
    ("linear_up", "ln1"),
    ("linear_down", "ln2"),
)

HF = Layout(
    name="hf",
    family="LeViT",
    signature=(_HF + r"patch_embeddings\.embedding_layer_1\.convolution\.weight", _HF_BRANCH + "attention_biases"),
    rules=(
        *_both(_HF + r"patch_embeddings\.embedding_layer_(\d)", r"stem.conv\1", "convolution", "batch_norm"),
        *_both("classifier", "head", "linear", "batch_norm"),
        *_both("classifier_distill", "head_dist", "linear", "batch_norm"),
    ),
    prepare=_renamed(
        (
            *(
                rule
                for theirs, ours in _HF_NAMES
                for rule in _both(_HF_BRANCH + theirs, rf"\1.{ours}", "linear", "batch_norm")
            ),
            Rule(_HF_BRANCH + r"(attention_biases|attention_bias_idxs)", r"\1.\2"),
        )
    ),
)

LAYOUTS = (OFFICIAL, HF)
