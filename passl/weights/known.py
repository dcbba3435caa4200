# SPDX-License-Identifier: Apache-2.0
"""Cards of published ImageNet-1k weights.

``published.tsv`` has a row for each: top-1 is timm's evaluation under the settings of the row (results-imagenet.csv
of timm 1.0.29); the last two columns are the authors' own figure and the crop they used, where it differs.
Names are timm's, ``model.tag``.  Models that timm does not have: CvT and T2T-ViT by PaddleViT's evaluation of the
converted weights, LV-ViT by the authors' own.  EfficientNet's rows are those of an earlier timm, at commit 0173a139.
"""

from __future__ import annotations

import csv
import functools
from pathlib import Path

from passl.utils.errors import CheckpointError, did_you_mean

from .card import CLIP, IMAGENET, INCEPTION, Card

_SOURCES = {
    "vit": "Google, https://github.com/google-research/vision_transformer",
    "deit": "Meta, https://github.com/facebookresearch/deit",
    "deit3": "Meta, https://github.com/facebookresearch/deit",
    "cait": "Meta, https://github.com/facebookresearch/deit",
    "xcit": "Meta, https://github.com/facebookresearch/xcit",
    "cvt": "Microsoft, https://github.com/microsoft/CvT",
    "t2t": "YITU, https://github.com/yitu-opensource/T2T-ViT",
    "lvvit": "https://github.com/zihangJiang/TokenLabeling",
    "levit": "Meta, https://github.com/facebookresearch/LeViT",
    "mixer": "Google, https://github.com/google-research/vision_transformer",
    "resmlp": "Meta, https://github.com/facebookresearch/deit",
    "gmlp": "timm, https://github.com/huggingface/pytorch-image-models",
    "convnext": "Meta, https://github.com/facebookresearch/ConvNeXt",
    "convvit": "the authors, https://github.com/Alpha-VL/ConvMAE",
    "convnextv2": "Meta, https://github.com/facebookresearch/ConvNeXt-V2",
    "swin": "Microsoft, https://github.com/microsoft/Swin-Transformer, S3: https://github.com/microsoft/Cream",
    "swinv2": "Microsoft, https://github.com/microsoft/Swin-Transformer",
    "beit": "Microsoft, https://github.com/microsoft/unilm",
    "beitv2": "Microsoft, https://github.com/microsoft/unilm",
    "efficientnet": "timm, https://github.com/huggingface/pytorch-image-models",
    "tf": "Google, https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet",
    "pvt": "the authors, https://github.com/whai362/PVT",
    "miil": "Alibaba, https://github.com/Alibaba-MIIL/ImageNet21K",
    "tv": "torchvision, https://github.com/pytorch/vision",
    "tv2": "torchvision, https://github.com/pytorch/vision",
    "laion2b": "timm, fine-tuned from LAION's weights, https://github.com/mlfoundations/open_clip",
    "openai": "timm, fine-tuned from OpenAI's weights, https://github.com/openai/CLIP",
    "a1": "timm, ResNet strikes back, https://arxiv.org/abs/2110.00476",
    "a2": "timm, ResNet strikes back, https://arxiv.org/abs/2110.00476",
    "a3": "timm, ResNet strikes back, https://arxiv.org/abs/2110.00476",
}


# by model and first word of the tag, by that word, by the model without its last number, or by the first word of the
# model, where it is not ImageNet's
_NORMALISATION = {
    "vit": INCEPTION,
    "beit": INCEPTION,
    "mixer": INCEPTION,
    "gmlp": INCEPTION,
    "miil": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "laion2b": CLIP,
    "openai": CLIP,
    "vit_large_patch14_clip.laion2b": INCEPTION,
    "ap": INCEPTION,
    "tf_efficientnet_lite": INCEPTION,
}

# of the norms, by how the first word of the model begins, where it is not 1e-6
_EPSILON = {
    **dict.fromkeys(("resnet", "swin", "cvt", "t2t", "lvvit", "levit", "efficientnet"), 1e-5),
    "tf": 1e-3,
}


@functools.cache
def known_cards() -> dict[str, Card]:
    """Every known card by the name of its weights."""
    cards = {}
    with open(Path(__file__).with_name("published.tsv"), encoding="utf-8", newline="") as rows:
        published = list(csv.DictReader(rows, delimiter="\t"))
    for row in published:
        name = row["name"]
        model, tag = name.split(".")
        family, author = model.split("_")[0], tag.split("_")[0]
        keys = (f"{model.rpartition('_')[0]}.{author}", author, model.rstrip("0123456789"), family)
        mean, std = next((_NORMALISATION[key] for key in keys if key in _NORMALISATION), IMAGENET)
        epsilon = next((value for start, value in _EPSILON.items() if family.startswith(start)), 1e-6)
        official = {key: float(row[f"official_{key}"]) for key in ("top1", "crop_fraction") if row[f"official_{key}"]}
        cards[name] = Card(
            name=name,
            model=model,
            img_size=int(row["img_size"]),
            crop_fraction=float(row["crop_fraction"]),
            interpolation=row["interpolation"],
            mean=mean,
            std=std,
            norm_eps=1e-5 if "_clip_" in model else epsilon,
            top1=float(row["top1"]),
            official=official or None,
            source=_SOURCES.get(author) or _SOURCES[family],
        )
    return cards


def known_card(name: str) -> Card:
    """The card of the weights ``name`` (``model.tag``), or of a model that has only one.

    Raises:
        CheckpointError: unknown name, or a model with several weights; names the choices.
    """
    cards = known_cards()
    matches = [card for key, card in cards.items() if name in (key, card.model)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise CheckpointError(f"'{name}' has several weights, name one: {', '.join(card.name for card in matches)}")
    raise CheckpointError(f"no known weights are called '{name}'{did_you_mean(name, cards)}")
