# SPDX-License-Identifier: Apache-2.0
"""Cards keep what a weight needs, and the known ones agree with the published facts."""

from pathlib import Path

import pytest

from passl.utils.errors import CheckpointError
from passl.utils.registry import BATCH_TRANSFORMS, TRANSFORMS, build
from passl.weights import Card, known, known_card, known_cards, read_card, save_card
from passl.weights.card import CLIP, INCEPTION


def test_a_card_survives_the_way_to_disk_and_back(tmp_path):
    card = Card(
        "w", "m", 384, 0.9, "squash", "bilinear", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 1e-5, 10, 83.5, {"top1": 1.0}
    )
    save_card(card, tmp_path / "w.safetensors")
    assert read_card(tmp_path / "w.safetensors") == card
    assert read_card(tmp_path / "other.pth") is None


@pytest.mark.parametrize(
    "text, says",
    [
        ('{"name": "w", "model": "m", "crop_fracton": 1}', "did you mean 'crop_fraction'"),
        ('{"name": "w"}', "model"),
        ("{", "not a valid card"),
        ('{"name": "w", "model": "m", "crop_mode": "stretch"}', "squash"),
        ('{"name": "w", "model": "m", "crop_fraction": 1.5}', "crop_fraction"),
    ],
)
def test_a_faulty_card_says_what_is_wrong(text, says):
    with pytest.raises(CheckpointError, match=says):
        Card.from_json(text)


def test_the_resize_rule_is_the_references():
    assert Card("w", "m", 224, 0.875).resize_size == 256
    assert Card("w", "m", 224, 0.9).resize_size == 248
    assert Card("w", "m", 384, 0.875).resize_size == 438
    assert Card("w", "m", 384, 1.0).resize_size == 384
    squash = Card("w", "m", 384, 1.0, "squash").transforms()
    assert squash[0] == {"name": "Resize", "size": [384, 384], "interpolation": "bicubic"}


def test_every_known_card_describes_transforms_that_exist():
    import passl.data.batch_transforms
    import passl.data.transforms  # noqa: F401  (registers them)

    for card in known_cards().values():
        for section in card.transforms():
            build(section, TRANSFORMS)
        for section in card.batch_transforms():
            build(section, BATCH_TRANSFORMS)


def test_known_cards_hold_the_published_settings():
    card = known_card("vit_base_patch16_224.augreg_in21k_ft_in1k")
    assert (card.mean, card.crop_fraction, card.norm_eps, card.top1) == ((0.5, 0.5, 0.5), 0.9, 1e-6, 84.53)
    card = known_card("deit_small_patch16_224")
    assert card.official == {"top1": 79.9, "crop_fraction": 0.875} and card.top1 == 79.86
    card = known_card("resnet50.tv_in1k")
    assert (card.interpolation, card.crop_fraction, card.norm_eps) == ("bilinear", 0.875, 1e-5)
    card = known_card("mixer_b16_224.miil_in21k_ft_in1k")
    assert (card.mean, card.std, card.interpolation) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), "bilinear")
    assert known_card("gmlp_s16_224").mean == (0.5, 0.5, 0.5)
    assert known_card("convnextv2_huge.fcmae_ft_in22k_in1k_384").img_size == 384
    card = known_card("swin_base_patch4_window7_224.ms_in1k")
    assert (card.norm_eps, card.official) == (1e-5, {"top1": 83.5, "crop_fraction": 0.875})
    assert known_card("beit_large_patch16_512").mean == (0.5, 0.5, 0.5) != known_card("swin_s3_tiny_224").mean
    assert known_card("beitv2_large_patch16_224.in1k_ft_in1k").mean == (0.485, 0.456, 0.406)
    card = known_card("tf_efficientnet_b4.ap_in1k")
    assert (card.mean, card.norm_eps, card.img_size, card.resize_size) == ((0.5, 0.5, 0.5), 1e-3, 380, 412)
    card = known_card("tf_efficientnet_lite3")
    assert (card.mean, card.norm_eps, card.interpolation) == ((0.5, 0.5, 0.5), 1e-3, "bilinear")
    assert known_card("tf_efficientnet_b0.in1k").mean == (0.485, 0.456, 0.406)
    assert (known_card("efficientnet_b0").norm_eps, known_card("efficientnet_b0").top1) == (1e-5, 77.69)
    card = known_card("cait_m48_448")
    assert (card.img_size, card.crop_fraction, card.top1) == (448, 1.0, 86.48)


def test_clip_weights_keep_the_normalisation_of_their_pre_training():
    cards = known_cards()
    for name, mean in (
        ("vit_base_patch16_clip_224.laion2b_ft_in1k", CLIP[0]),
        ("vit_large_patch14_clip_224.laion2b_ft_in1k", INCEPTION[0]),
        ("vit_large_patch14_clip_224.openai_ft_in1k", CLIP[0]),
        ("vit_base_patch16_224.augreg_in1k", INCEPTION[0]),
    ):
        assert cards[name].mean == mean
    assert cards["vit_base_patch16_clip_224.laion2b_ft_in1k"].norm_eps == 1e-5


def test_an_ambiguous_or_unknown_name_lists_the_choices():
    with pytest.raises(CheckpointError, match=r"name one: resnet18\.a1_in1k, "):
        known_card("resnet18")
    with pytest.raises(CheckpointError, match=r"did you mean 'resnet18\.a1_in1k'"):
        known_card("resnet18.a1_in1")


def test_tables_rows_are_unique_and_named_like_their_size():
    cards = known_cards()
    rows = Path(known.__file__).with_name("published.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(cards) == len(rows)
    for card in cards.values():
        size = card.model.rsplit("_", 1)[-1]
        named = size.isdigit() and not card.model.startswith("levit")  # whose number is a width
        assert not named or int(size) == card.img_size, card.name


@pytest.mark.parametrize(
    ("name", "epsilon", "crop"),
    [("xcit_nano_12_p8_224.fb_in1k", 1e-6, 1.0), ("cvt_13_224", 1e-5, 0.875), ("t2t_vit_7_224", 1e-5, 0.9)],
)
def test_epsilon_and_crop_are_the_familys_own(name, epsilon, crop):
    card = known_card(name)
    assert (card.norm_eps, card.crop_fraction) == (epsilon, crop)


@pytest.mark.parametrize("content", [b"[1, 2]", b"\xff\xfe", b'"name"', b"{", b"{}"])
def test_a_json_that_is_no_card_is_an_error_that_names_it(tmp_path, content):
    (tmp_path / "w.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"w\.json is not a valid card"):
        read_card(tmp_path / "w.safetensors")
