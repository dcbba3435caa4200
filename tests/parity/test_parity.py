# SPDX-License-Identifier: Apache-2.0
"""Each backbone gives what its reference gives.  A new family is a row of CASES and, if needed, a rename rule."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import passl
from passl.modeling.backbones import build_backbone
from passl.modeling.heads import ClsHead
from passl.modeling.model import Model
from passl.weights.convert import cvt
from passl.weights.convert.vit import DEIT3, PARALLEL
from tests.parity.golden import Golden, Rename, check_gradients, check_norms, check_outputs, fill_model


def timm_name(name: str) -> str:
    """Our name for an entry of a timm model: the classifier is ``head``, all else is the backbone."""
    if name.startswith("head."):
        return name.replace("head.", "head.fc.", 1)
    return f"architecture.{name}"


def resnet_name(name: str) -> str:
    """The same for ResNets, whose classifier is ``fc``."""
    return f"head.{name}" if name.startswith("fc.") else f"architecture.{name}"


def clip_resnet_name(name: str) -> str:
    """The same for CLIP's ResNets, whose classifier timm counts the attention pooling to."""
    if name.startswith("head.proj."):
        return name.replace("head.proj.", "head.fc.")
    return f"architecture.{name.replace('head.', 'attn_pool.') if name.startswith('head.') else name}"


def same_name(name: str) -> str:
    """The same for models whose classifier is ``head.fc`` in timm too."""
    return name if name.startswith("head.") else f"architecture.{name}"


def efficientnet_name(name: str) -> str:
    """The same for EfficientNet, whose classifier is ``classifier``."""
    return name.replace("classifier.", "head.fc.") if name.startswith("classifier.") else timm_name(name)


def convnext_name(name: str) -> str:
    """The same for ConvNeXt, whose last norm timm counts to the classifier."""
    return same_name(name.replace("head.norm.", "norm."))


def distilled_name(name: str) -> str:
    """The same for distilled DeiT, which has two classifiers."""
    return name.replace("head_dist.", "head.fc_dist.") if name.startswith("head_dist.") else timm_name(name)


def deit_parallel_name(name: str) -> str:
    """The same for parallel ViTs as their authors wrote them."""
    return timm_name(PARALLEL.rename(name)[0])


def hf_cvt_name(name: str) -> str:
    """The same for CvT in transformers, whose names the weights' layout knows."""
    return timm_name(cvt.HF.rename(name)[0])


def deit3_name(name: str) -> str:
    """The same for DeiT III, and ViTs on the hMLP stem, as their authors wrote them."""
    return timm_name(DEIT3.rename(name)[0])


def lvvit_name(name: str) -> str:
    """The same for LV-ViT, which classifies its patches too."""
    return name.replace("aux_head.", "head.fc_aux.") if name.startswith("aux_head.") else timm_name(name)


def levit_name(name: str) -> str:
    """The same for LeViT, which has a second classifier."""
    return name.replace("head_dist.", "head.fc_dist.") if name.startswith("head_dist.") else timm_name(name)


def deit_resmlp_name(name: str) -> str:
    """The same for ResMLP as its authors wrote it."""
    for theirs, ours in (("patch_embed", "stem"), (".attn.", ".linear_tokens."), (".mlp.", ".mlp_channels.")):
        name = name.replace(theirs, ours)
    return timm_name(name.replace("gamma_", "ls"))


DINOV2_SMALL = {"patch_size": 14, "embed_dim": 384, "depth": 12, "num_heads": 6, "init_values": 1e-5}


class Case(NamedTuple):
    """A golden and the model that must match it: a name of the catalogue, or arguments of a backbone."""

    golden: str
    model: str | dict
    rename: Rename = timm_name
    slow: bool = False


CASES = [
    Case("timm__cait_xxs24_224", "cait_xxs24_224"),
    Case("deit__cait_XXS24_224", "cait_xxs24_224", slow=True),
    Case("timm__cait_s24_224", "cait_s24_224", slow=True),
    Case("timm__cait_xxs36_224", "cait_xxs36_224", slow=True),
    Case("timm__vit_tiny_patch16_224", "vit_tiny_patch16_224"),
    Case("timm__vit_small_patch16_224", "vit_small_patch16_224"),
    Case("timm__vit_base_patch32_224", "vit_base_patch32_224", slow=True),
    Case("timm__deit_tiny_patch16_224", "deit_tiny_patch16_224"),
    Case("timm__deit_tiny_distilled_patch16_224", "deit_tiny_distilled_patch16_224", distilled_name),
    Case("timm__deit3_small_patch16_224", "deit3_small_patch16_224"),
    Case("timm__vit_small_patch16_18x2_224", "vit_small_patch16_18x2_224", slow=True),
    Case("deit__deit_small_patch16_18x2", "deit_small_patch16_18x2", deit_parallel_name, slow=True),
    Case(
        "deit__hmlp_small_LS",
        {"name": "ViT", "embed_dim": 384, "num_heads": 6, "stem": "hmlp", "init_values": 1e-4, "no_embed_class": True},
        deit3_name,
    ),
    Case("timm__vit_base_patch16_clip_224", "vit_base_patch16_clip_224", slow=True),
    Case("timm__vit_base_patch16_clip_quickgelu_224", "vit_base_patch16_clip_quickgelu_224", slow=True),
    Case("timm__resnet50_clip", "resnet50_clip", clip_resnet_name),
    Case("timm__vit_small_patch14_dinov2", "vit_small_patch14_dinov2", slow=True),
    Case("timm__vit_small_patch14_dinov2__img224", {"name": "ViT", **DINOV2_SMALL}),
    Case(
        "timm__vit_small_patch14_reg4_dinov2__img224",
        {"name": "ViT", **DINOV2_SMALL, "num_register_tokens": 4, "no_embed_class": True},
    ),
    Case("timm__beit_base_patch16_224", "beit_base_patch16_224", slow=True),
    Case("timm__beitv2_base_patch16_224", "beitv2_base_patch16_224", slow=True),
    Case("timm__swin_tiny_patch4_window7_224", "swin_tiny_patch4_window7_224", same_name),
    Case("timm__swinv2_tiny_window8_256", "swinv2_tiny_window8_256", same_name),
    Case("timm__swin_s3_tiny_224", "swin_s3_tiny_224", same_name, slow=True),
    Case("timm__convnext_atto", "convnext_atto", convnext_name),
    Case("timm__convnext_pico", "convnext_pico", convnext_name, slow=True),
    Case("timm__convnext_tiny", "convnext_tiny", convnext_name, slow=True),
    Case("timm__convnextv2_atto", "convnextv2_atto", convnext_name),
    Case("cvt__cvt_13", "cvt_13_224"),
    Case("hf__cvt_13", {"name": "CvT", "act": "gelu"}, hf_cvt_name, slow=True),
    Case("tlt__lvvit_t", "lvvit_t_224", lvvit_name),
    Case("tlt__lvvit_s", "lvvit_s_224", lvvit_name, slow=True),
    Case("t2t__t2t_vit_7", "t2t_vit_7_224"),
    Case("t2t__t2t_vit_14", "t2t_vit_14_224", slow=True),
    Case("t2t__t2t_vit_t_14", "t2t_vit_t_14_224", slow=True),
    Case("timm__levit_128s", "levit_128s", levit_name),
    Case("timm__levit_256", "levit_256", levit_name, slow=True),
    Case("timm__mixer_s32_224", "mixer_s32_224"),
    Case("timm__resmlp_12_224", "resmlp_12_224"),
    Case("deit__resmlp_12", "resmlp_12_224", deit_resmlp_name, slow=True),
    Case("timm__gmlp_s16_224", "gmlp_s16_224"),
    Case("timm__xcit_nano_12_p16_224", "xcit_nano_12_p16_224"),
    Case("timm__xcit_tiny_12_p8_224", "xcit_tiny_12_p8_224", slow=True),
    Case("timm__pvt_v2_b0", "pvt_v2_b0"),
    Case("timm__pvt_v2_b1", "pvt_v2_b1", slow=True),
    Case("timm__pvt_v2_b2_li", "pvt_v2_b2_li", slow=True),
    Case("timm__regnety_016", "regnety_016", same_name),
    Case("timm__regnety_160", "regnety_160", same_name, slow=True),
    Case("timm__efficientnet_b0", "efficientnet_b0", efficientnet_name),
    Case("timm__tf_efficientnet_lite0", "tf_efficientnet_lite0", efficientnet_name),
    Case("timm__resnet18", "resnet18", resnet_name),
    Case("timm__resnet50", "resnet50", resnet_name),
]


def build(case: Case, num_classes: int) -> Model:
    if isinstance(case.model, str):
        return passl.create_model(case.model, num_classes=num_classes)
    backbone = build_backbone(case.model)
    return Model(backbone, ClsHead(backbone.num_features, num_classes))


@pytest.mark.parity
@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.golden, marks=[pytest.mark.slow] if c.slow else []) for c in CASES]
)
def test_model_equals_its_reference(case):
    golden = Golden(case.golden)
    model = build(case, golden.meta["num_classes"])
    model.eval()
    fill_model(model, golden, case.rename)
    check_norms(model, golden, case.rename)
    check_outputs(model, golden)
    if "grad_norms" in golden:
        check_gradients(model, golden, case.rename)
