# SPDX-License-Identifier: Apache-2.0
"""From a file's arrays to our names, and back: finding the layout, the prefix and the orientation.

The normal form has the names of a passl model without ``architecture.``, linear weights as Paddle
keeps them, [in, out], and BatchNorm statistics as ``_mean`` and ``_variance``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from passl.utils.errors import CheckpointError, did_you_mean

from . import (
    beit,
    clip,
    convnext,
    cvt,
    dinov2,
    efficientnet,
    levit,
    mlp,
    pvt,
    regnet,
    resnet,
    swin,
    timm_names,
    vit,
    xcit,
)
from .table import Arrays, Layout, Rule

BACKBONE, HEAD = "architecture.", "head."  # our names in a whole model
PASSL = Layout(
    name="passl",
    family="any",
    orientation="paddle",
    signature=(r"head\.(fc|fc_cls)\.(linear\.)?weight",),
    absent=(r"head\.norm\..*",),
    rules=(Rule(r"head\.fc_cls\.(weight|bias)", r"head.fc.\1"),),  # PASSL 1 called CaiT's classifier so
)
_PASSL_PREFIXES = (BACKBONE, "backbone.")
# timm's names: timm itself, torchvision's ResNet, CaiT, MAE, DINO, and PaddleClas's ViT (its weights are [in, out]).
TIMM = Layout(name="timm", family="any")
LAYOUTS: tuple[Layout, ...] = (
    *clip.LAYOUTS,
    *dinov2.LAYOUTS,
    *vit.LAYOUTS,
    *beit.LAYOUTS,
    *swin.LAYOUTS,
    *levit.LAYOUTS,
    *mlp.LAYOUTS,
    *convnext.LAYOUTS,
    *cvt.LAYOUTS,
    *efficientnet.LAYOUTS,
    *pvt.LAYOUTS,
    *regnet.LAYOUTS,
    *resnet.LAYOUTS,
    *xcit.LAYOUTS,
    PASSL,
    TIMM,
)
_SAME_NAMES = ("timm", "official", "torchvision", "paddleclas")  # what users may call a file in timm's names
LAYOUT_NAMES = ("auto", *dict.fromkeys(layout.name for layout in LAYOUTS))

# Containers and wrappers that may stand in front of every name.  Averaged weights and teachers come
# first: they are what authors evaluate.
_WRAPPERS = (
    *("model_ema", "state_dict_ema", "ema", "ema_model", "ema_state_dict", "teacher", "target_encoder"),
    *("state_dict", "model", "net", "network", "module", "_orig_mod", "model_state_dict", "params"),
    *("backbone", "architecture", "encoder_q", "base_encoder", "online_encoder", "encoder", "visual", "trunk"),
    *("student", "encoder_k", "momentum_encoder"),
)
_RANK = {word: rank for rank, word in enumerate(_WRAPPERS)}
_BACKBONE_WORDS = {"backbone", "architecture", "encoder", "visual", "trunk"}
_HEAD = re.compile(r"(head|fc|classifier|head_dist|cls_classifier|distillation_classifier)\.(?!\d).*")
# First words of backbone names, by which a file is judged when there is no model to compare with.
_ROOTS = re.compile(
    r"(cls_token|dist_token|reg_token|mask_token|pos_embed|patch_embed\w*|blocks\w*|norm\w*|fc_norm|head\w*|conv1|bn1|fc"
    r"|layer[1-4]|s[1-4]|stem\w*|stages\w*|stage\d|layers|downsample_layers|tokens_to_token|cls_attn_blocks|block\d"
    r"|classifier|conv_stem|conv_head|bn2)(\..*)?"
)
_LINEAR = re.compile(r"(?!.*(embedding|embeddings|embed_tokens)\.weight$).*\.weight")
_STATISTICS = {"running_mean": "_mean", "running_var": "_variance"}
_UNUSED = re.compile(
    r".*\.?(num_batches_tracked|relative_position_index|relative_coords_table|attn_mask|attention_bias_idxs)"
)

PADDLE_SUFFIXES = (".pdparams", ".pdopt", ".pd")

Score = Callable[[Iterable[str]], int]


@dataclass
class Normal:
    """A file's arrays in normal form.

    Args:
        arrays: by our names without ``architecture.``.
        layout: which layout was recognised, e.g. ``"hf (ViT, DeiT)"``.
        prefix: what was cut off in front of the names.
        left_out: names outside that prefix (a student, a projector, an optimiser).
    """

    arrays: Arrays
    layout: str
    prefix: str
    left_out: list[str]


def normalise(
    arrays: Mapping[str, np.ndarray],
    layout: str = "auto",
    prefix: str | None = None,
    score: Score | None = None,
    linear: Callable[[str, np.ndarray], bool] | None = None,
    paddle_file: bool = False,
) -> Normal:
    """Bring a file's arrays to normal form.

    Args:
        arrays: as :func:`passl.weights.read.read_arrays` returns them.
        layout: one of ``LAYOUT_NAMES``; ``"auto"`` tries all whose marks are there.
        prefix: what to cut off in front of the names (``"student"``); None finds it.
        score: how well names fit (the number found in a model); by default those that look like a backbone's.
        linear: whether a normal name's array is a linear weight; by default 2-D arrays called ``weight``.
        paddle_file: orientation to assume where the arrays do not tell.
    Raises:
        CheckpointError: unknown layout, no entry below ``prefix``, or the weights contradict the layout.
    """
    score = score or (lambda names: sum(_ROOTS.fullmatch(name) is not None for name in names))
    candidates = _candidates(layout)
    prefixes = _prefixes(arrays) if prefix is None else [prefix + "." if prefix and prefix[-1] != "." else prefix]
    best: tuple[Any, ...] | None = None
    for place, start in enumerate(prefixes):
        subset = _below(arrays, start)
        for rank, candidate in enumerate(candidates):
            if candidate is PASSL and not start.endswith(_PASSL_PREFIXES):
                continue  # timm's Swin also calls its classifier head.fc
            if subset and candidate.fits(list(subset)):
                key = (score(_our_names(candidate, subset).values()), -place, -rank)
                if best is None or key > best[0]:
                    best = (key, start, candidate, subset)
    if best is None:
        names = ", ".join(list(arrays)[:5])
        where = f" below '{prefix}'" if prefix else ""
        raise CheckpointError(f"no entry{where} fits the layout '{layout}'; the file's names begin: {names}")
    _, start, chosen, subset = best
    result = chosen.apply({name: arrays[source] for name, source in subset.items()})
    ours = {n: n for n in result} if chosen.name == PASSL.name else timm_names.from_timm(result)
    normal = _in_paddle_form({ours[n]: a for n, a in result.items()}, chosen, layout, paddle_file, linear)
    left_out = sorted(set(arrays) - set(subset.values()))
    return Normal(
        normal, f"{chosen.name} ({chosen.family})" if chosen.family != "any" else chosen.name, start, left_out
    )


def to_layout(arrays: Mapping[str, np.ndarray], layout: str = "timm") -> Arrays:
    """Arrays of a passl model under another library's names and in its form; the inverse of loading them.

    Args:
        arrays: state of a model (``architecture.*``, ``head.*``) or of a bare backbone.  What belongs to
            neither (projectors, queues) has no counterpart and is left out.
        layout: ``"timm"`` (linear weights [out, in]), or ``"passl"``.
    Raises:
        CheckpointError: a layout that there is no way back to.
    """
    if layout == "passl":
        return dict(arrays)
    if layout != "timm":
        raise CheckpointError(
            f"weights can be written as 'timm' or 'passl', not '{layout}'{did_you_mean(layout, ['timm'])}"
        )
    if any(name.startswith(BACKBONE) for name in arrays):
        arrays = {
            name[len(BACKBONE) :] if name.startswith(BACKBONE) else name: array
            for name, array in arrays.items()
            if name.startswith((BACKBONE, HEAD))
        }
    back = {ours: theirs for theirs, ours in _STATISTICS.items()}
    named = {_last_word(name, back): _turn(name, array) for name, array in arrays.items()}
    timm = timm_names.to_timm(named)
    return convnext.to_timm({timm[name]: array for name, array in named.items()})


def is_unused(name: str) -> bool:
    """Whether an entry is a counter or an index table that no passl model keeps."""
    return _UNUSED.fullmatch(name) is not None


def _candidates(layout: str) -> list[Layout]:
    if layout == "auto":
        return list(LAYOUTS)
    if layout not in LAYOUT_NAMES:
        raise CheckpointError(f"unknown layout '{layout}'{did_you_mean(layout, LAYOUT_NAMES)}; known: {LAYOUT_NAMES}")
    named = [candidate for candidate in LAYOUTS if candidate.name == layout]
    if layout in _SAME_NAMES and TIMM not in named:
        named.append(TIMM)
    if layout == "passl":
        named.append(Layout(name="passl", family="any", orientation="paddle"))  # a bare backbone has no head to tell by
    return named


def _prefixes(names: Collection[str]) -> list[str]:
    """Everything that could stand in front of the names, preferred ones first; always including nothing."""
    found = {""}
    for name in names:
        words = name.split(".")
        start = ""
        for word in words[:-1]:
            if word not in _RANK:
                break
            start += word + "."
            found.add(start)
    return sorted(found, key=lambda p: ([_RANK[w] for w in p.split(".")[:-1]], len(p)))


def _below(names: Iterable[str], start: str) -> dict[str, str]:
    """{name without the prefix: name}; a head beside a ``backbone`` container belongs to it."""
    subset = {name[len(start) :]: name for name in names if name.startswith(start)}
    outer, _, last = start[:-1].rpartition(".")
    if last in _BACKBONE_WORDS:
        outer = outer + "." if outer else ""
        for name in names:
            rest = name[len(outer) :]
            if name.startswith(outer) and not name.startswith(start) and _HEAD.fullmatch(rest):
                subset.setdefault(rest, name)
    return subset


def _our_names(layout: Layout, names: Iterable[str]) -> dict[str, str]:
    """Our name for each name of a file that is kept (arrays are not touched)."""
    if layout.prepare:
        names = layout.prepare(dict.fromkeys(names, np.empty(0)))
    renamed = [to for to in (layout.rename(name)[0] for name in names) if to is not None]
    ours = {n: n for n in renamed} if layout.name == PASSL.name else timm_names.from_timm(renamed)
    return {name: _last_word(new, _STATISTICS) for name, new in ours.items()}


def _in_paddle_form(arrays: Arrays, chosen: Layout, asked: str, paddle_file: bool, linear) -> Arrays:
    """Linear weights as [in, out] and statistics under Paddle's names."""
    votes = {vote for vote in map(_vote(arrays), arrays) if vote}
    statistics = {
        "paddle" if n.endswith("._mean") else "torch" for n in arrays if n.endswith(("._mean", ".running_mean"))
    }
    if len(votes) > 1 or (votes and statistics and votes != statistics):
        raise CheckpointError(
            "some linear weights are stored as [in, out] and some as [out, in]; convert the file again from its source"
        )
    default = "paddle" if paddle_file or asked == "paddleclas" else chosen.orientation
    orientation = next(iter(votes or statistics), default)
    if asked in ("passl", "paddleclas", "timm", "hf", "google") and orientation != default:
        raise CheckpointError(
            f"layout '{asked}' keeps linear weights as {'[in, out]' if default == 'paddle' else '[out, in]'}, "
            f"these are the other way round; use layout 'auto'"
        )
    linear = linear or (lambda name, array: array.ndim == 2 and _LINEAR.fullmatch(name) is not None)
    turn = orientation == "torch"
    return {_last_word(n, _STATISTICS): a.T if turn and a.ndim == 2 and linear(n, a) else a for n, a in arrays.items()}


def _vote(arrays: Mapping[str, np.ndarray]) -> Callable[[str], str | None]:
    """How a linear weight lies, judged by its bias (or by being a qkv), if that tells."""

    def vote(name: str) -> str | None:
        array = arrays[name]
        if array.ndim != 2 or array.shape[0] == array.shape[1] or not _LINEAR.fullmatch(name):
            return None
        bias = arrays.get(name[: -len("weight")] + "bias")
        rows, columns = array.shape
        if bias is not None and bias.ndim == 1 and bias.size in (rows, columns):
            return "torch" if bias.size == rows else "paddle"
        if name.startswith("tokens_to_token."):
            return None  # T2T-ViT's narrow the tokens: 576 to 3 * 64, which looks like 192 to 3 * 192 turned round
        if name.endswith(".qkv.weight") and rows in (3 * columns, columns / 3):
            return "torch" if rows == 3 * columns else "paddle"
        return None

    return vote


def _turn(name: str, array: np.ndarray) -> np.ndarray:
    return array.T if array.ndim == 2 and _LINEAR.fullmatch(name) else array


def _last_word(name: str, words: Mapping[str, str]) -> str:
    start, dot, last = name.rpartition(".")
    return start + dot + words.get(last, last)
