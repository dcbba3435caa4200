# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle
import pytest

from passl.methods import build_method
from passl.modeling.backbones import BEiT, ViT
from passl.modeling.layers import HMLPStem, PatchEmbed, stem_projection

TINY = {"img_size": 32, "patch_size": 16, "embed_dim": 32, "depth": 1, "num_heads": 2}


def changed_tokens(embed, images):
    """Numbers of the tokens that change when the patch in row 1, column 2 does, and those that stay bit for bit."""
    before = embed(images)
    images = images.clone()
    images[:, :, 16:32, 32:48] = images[:, :, 16:32, 32:48] + 1.0
    changed = (embed(images) != before).any(-1)[0]
    return changed.nonzero().flatten().tolist()


@pytest.mark.parametrize("stem", ["linear", "hmlp", "hmlp_ln"])
def test_changing_one_patch_changes_exactly_one_token(stem):
    paddle.seed(0)
    embed = PatchEmbed((48, 64), 16, 3, 32, proj=stem_projection(stem, 16, 3, 32))
    embed.eval()
    images = paddle.randn([1, 3, 48, 64])
    assert embed(images).shape == [1, 12, 32]
    assert changed_tokens(embed, images) == [4 + 2]


def test_layer_norm_keeps_patches_apart_in_training_too():
    paddle.seed(0)
    embed = PatchEmbed((48, 64), 16, 3, 32, proj=stem_projection("hmlp_ln", 16, 3, 32))
    assert changed_tokens(embed, paddle.randn([1, 3, 48, 64])) == [4 + 2]


def test_layers_stand_where_the_official_weights_have_them():
    names = {name for name, _ in HMLPStem(3, 32).named_parameters()}
    assert {n for n in names if n.endswith(".bias")} == {f"{i}.bias" for i in (0, 1, 3, 4, 6, 7)}


@pytest.mark.parametrize("stem", ["hmlp", "hmlp_ln"])
@pytest.mark.parametrize("backbone", [ViT, BEiT])
def test_vit_and_beit_train_on_the_stem(backbone, stem):
    paddle.seed(0)
    model = backbone(**TINY, stem=stem, use_mask_token=True)
    mask = paddle.to_tensor([[True, False, False, True]] * 2)
    model.forward_features(paddle.randn([2, 3, 32, 32]), mask=mask).square().sum().backward()
    assert all(p.grad is not None for p in model.patch_embed.parameters() if not p.stop_gradient)


def test_mae_encodes_visible_patches_through_the_stem():
    paddle.seed(0)
    decoder = {"name": "MAEDecoder", "in_dim": 32, "grid_size": 2, "patch_size": 16, "embed_dim": 16, "depth": 1}
    method = build_method(
        {
            "name": "MAE",
            "architecture": {"name": "ViT", **TINY, "stem": "hmlp_ln"},
            "decoder": {**decoder, "num_heads": 2},
            "loss": {"name": "MaskedReconstruction", "norm_pix": False},
        }
    )
    method({"image": paddle.randn([2, 3, 32, 32])})["loss"].backward()
    assert all(p.grad is not None for p in method.architecture.patch_embed.parameters())


def test_other_patches_and_other_stems_are_refused():
    with pytest.raises(ValueError, match="made for patch_size=16, got 14"):
        ViT(**{**TINY, "img_size": 28, "patch_size": 14}, stem="hmlp")
    with pytest.raises(ValueError, match="stem must be one of"):
        ViT(**TINY, stem="conv")
    with pytest.raises(ValueError, match="divisible by 4"):
        HMLPStem(3, 30)
