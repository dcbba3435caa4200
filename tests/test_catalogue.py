# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import paddle
import pytest

import passl
from passl.catalogue import FAMILIES, config_path
from passl.utils.config import config_root, get_config
from passl.utils.errors import ConfigError
from passl.weights import save_weights

PARAMETERS = {
    "vit_base_patch32_clip_224": 88_225_000,
    "vit_base_patch32_clip_384": 88_297_960,
    "vit_base_patch16_clip_224": 86_568_424,
    "vit_base_patch16_clip_384": 86_860_264,
    "vit_large_patch14_clip_224": 304_204_776,
    "vit_large_patch14_clip_336": 304_532_456,
    "vit_huge_patch14_clip_224": 632_047_080,
    "vit_huge_patch14_clip_336": 632_456_680,
    "vit_giant_patch14_clip_224": 1_012_612_840,
    "vit_gigantic_patch14_clip_224": 1_844_442_344,
    "vit_base_patch32_clip_quickgelu_224": 88_225_000,
    "vit_base_patch16_clip_quickgelu_224": 86_568_424,
    "vit_large_patch14_clip_quickgelu_224": 304_204_776,
    "vit_large_patch14_clip_quickgelu_336": 304_532_456,
    "resnet50_clip": 38_267_720,
    "resnet101_clip": 57_259_848,
    "resnet50x4_clip": 88_059_040,
    "resnet50x16_clip": 168_041_848,
    "resnet50x64_clip": 420_282_024,
    "hmlp_tiny_patch16_224": 5_619_016,
    "hmlp_ln_tiny_patch16_224": 5_619_016,
    "hmlp_small_patch16_224": 21_946_024,
    "hmlp_ln_small_patch16_224": 21_946_024,
    "hmlp_base_patch16_224": 86_727_016,
    "hmlp_ln_base_patch16_224": 86_727_016,
    "deit_small_patch16_12x2": 43_343_848,
    "deit_small_patch16_12x2_ls": 43_362_280,
    "deit_small_patch16_18x2": 64_637_416,
    "deit_small_patch16_18x2_ls": 64_665_064,
    "deit_small_patch16_24x2": 85_930_984,
    "deit_small_patch16_24x2_ls": 85_967_848,
    "deit_small_patch16_30x2": 107_224_552,
    "deit_small_patch16_30x2_ls": 107_270_632,
    "deit_base_patch16_12x2": 171_621_352,
    "deit_base_patch16_12x2_ls": 171_658_216,
    "deit_base_patch16_18x2": 256_675_816,
    "deit_base_patch16_18x2_ls": 256_731_112,
    "vit_small_patch16_18x2_224": 64_665_448,
    "vit_base_patch16_18x2_224": 256_731_880,
    "vit_small_patch16_36x1_224": 64_665_448,
    "deit_small_patch16_36x1": 64_637_416,
    "deit_small_patch16_36x1_ls": 64_665_064,
    "deit_base_patch16_36x1": 256_675_816,
    "deit_base_patch16_36x1_ls": 256_731_112,
    "deit_huge_patch14_52_ls": 1_025_726_440,
    "deit_huge_patch14_26x2_ls": 1_025_726_440,
    "deit_giant_patch14_40_ls": 955_030_504,
    "deit_giant_patch14_40x2_ls": 1_907_458_024,
    "deit_gigantic_patch14_48_ls": 1_599_158_248,
    "deit_gigantic_patch14_48x2_ls": 3_195_240_424,
    "deit_tiny_distilled_patch16_224": 5_910_800,
    "deit_small_distilled_patch16_224": 22_436_432,
    "deit_base_distilled_patch16_224": 87_338_192,
    "deit_base_distilled_patch16_384": 87_630_032,
    "deit3_small_patch16_224": 22_059_496,
    "deit3_medium_patch16_224": 38_849_512,
    "deit3_base_patch16_224": 86_585_320,
    "deit3_large_patch16_224": 304_374_760,
    "deit3_huge_patch14_224": 632_126_440,
    "deit3_small_patch16_384": 22_205_416,
    "deit3_base_patch16_384": 86_877_160,
    "deit3_large_patch16_384": 304_763_880,
    "vit_small_patch14_dinov2": 22_441_192,
    "vit_base_patch14_dinov2": 87_348_712,
    "vit_large_patch14_dinov2": 305_392_616,
    "vit_giant_patch14_dinov2": 1_138_016_232,
    "vit_small_patch14_reg4_dinov2": 22_442_344,
    "vit_base_patch14_reg4_dinov2": 87_351_016,
    "vit_large_patch14_reg4_dinov2": 305_395_688,
    "vit_giant_patch14_reg4_dinov2": 1_138_020_840,
    "vit_huge_patch14_224": 632_045_800,
    "vit_giant_patch14_224": 1_012_611_432,
    "vit_gigantic_patch14_224": 1_844_440_680,
    "beit_base_patch16_224": 86_530_984,
    "beit_base_patch16_384": 86_744_104,
    "beit_large_patch16_224": 304_430_568,
    "beit_large_patch16_384": 304_998_888,
    "beit_large_patch16_512": 305_674_728,
    "beitv2_base_patch16_224": 86_530_984,
    "beitv2_large_patch16_224": 304_430_568,
    "cait_m36_384": 271_221_352,
    "cait_m48_448": 356_460_520,
    "cait_s24_224": 46_916_200,
    "cait_s24_384": 47_062_120,
    "cait_s36_384": 68_366_632,
    "cait_xs24_384": 26_670_088,
    "cait_xxs24_224": 11_956_264,
    "cait_xxs24_384": 12_029_224,
    "cait_xxs36_224": 17_299_720,
    "cait_xxs36_384": 17_372_680,
    "deit_base_patch16_224": 86_567_656,
    "deit_base_patch16_384": 86_859_496,
    "deit_small_patch16_224": 22_050_664,
    "deit_tiny_patch16_224": 5_717_416,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "swin_base_patch4_window12_384": 87_903_584,
    "swin_base_patch4_window7_224": 87_768_224,
    "swin_large_patch4_window12_384": 196_735_516,
    "swin_large_patch4_window7_224": 196_532_476,
    "swin_s3_base_224": 71_125_762,
    "swin_s3_small_224": 49_737_298,
    "swin_s3_tiny_224": 28_328_674,
    "swin_small_patch4_window7_224": 49_606_258,
    "swin_tiny_patch4_window7_224": 28_288_354,
    "swinv2_base_window12_192": 109_280_841,
    "swinv2_base_window12to16_192to256": 87_918_816,
    "swinv2_base_window12to24_192to384": 87_918_816,
    "swinv2_base_window16_256": 87_918_816,
    "swinv2_base_window8_256": 87_918_816,
    "swinv2_large_window12_192": 228_772_549,
    "swinv2_large_window12to16_192to256": 196_739_932,
    "swinv2_large_window12to24_192to384": 196_739_932,
    "swinv2_small_window16_256": 49_728_418,
    "swinv2_small_window8_256": 49_728_418,
    "swinv2_tiny_window16_256": 28_347_154,
    "swinv2_tiny_window8_256": 28_347_154,
    "cvt_13_224": 19_997_480,
    "cvt_13_384": 19_997_480,
    "cvt_21_224": 31_622_696,
    "cvt_21_384": 31_622_696,
    "cvt_w24_384": 277_196_392,
    "convvit_base_patch16": 85_374_824,
    "convnext_atto": 3_695_520,
    "convnext_base": 88_591_464,
    "convnext_femto": 5_217_784,
    "convnext_large": 197_767_336,
    "convnext_nano": 15_593_560,
    "convnext_pico": 9_045_672,
    "convnext_small": 50_223_688,
    "convnext_tiny": 28_589_128,
    "convnext_xlarge": 350_196_968,
    "convnextv2_atto": 3_708_400,
    "convnextv2_base": 88_717_800,
    "convnextv2_femto": 5_233_240,
    "convnextv2_huge": 660_289_640,
    "convnextv2_large": 197_956_840,
    "convnextv2_nano": 15_623_800,
    "convnextv2_pico": 9_066_280,
    "convnextv2_small": 50_318_440,
    "convnextv2_tiny": 28_635_496,
    "gmlp_b16_224": 73_075_392,
    "gmlp_s16_224": 19_422_656,
    "gmlp_ti16_224": 5_867_328,
    "lvvit_l_448": 150_473_552,
    "lvvit_l_512": 150_657_872,
    "lvvit_m_224": 55_830_544,
    "lvvit_m_384": 56_025_104,
    "lvvit_m_448": 56_131_600,
    "lvvit_s_224": 26_151_824,
    "lvvit_s_384": 26_297_744,
    "lvvit_t_224": 8_534_720,
    "levit_128": 9_213_936,
    "levit_128s": 7_777_058,
    "levit_192": 10_947_069,
    "levit_256": 18_893_876,
    "levit_384": 39_128_836,
    "mixer_b16_224": 59_880_472,
    "mixer_b32_224": 60_293_428,
    "mixer_l16_224": 208_196_168,
    "mixer_l32_224": 206_939_264,
    "mixer_s16_224": 18_528_264,
    "mixer_s32_224": 19_104_624,
    "efficientnet_b0": 5_288_548,
    "efficientnet_b1": 7_794_184,
    "efficientnet_b2": 9_109_994,
    "efficientnet_b3": 12_233_232,
    "efficientnet_b4": 19_341_616,
    "efficientnet_b5": 30_389_784,
    "efficientnet_b6": 43_040_704,
    "efficientnet_b7": 66_347_960,
    "tf_efficientnet_b0": 5_288_548,
    "tf_efficientnet_b1": 7_794_184,
    "tf_efficientnet_b2": 9_109_994,
    "tf_efficientnet_b3": 12_233_232,
    "tf_efficientnet_b4": 19_341_616,
    "tf_efficientnet_b5": 30_389_784,
    "tf_efficientnet_b6": 43_040_704,
    "tf_efficientnet_b7": 66_347_960,
    "tf_efficientnet_lite0": 4_652_008,
    "tf_efficientnet_lite1": 5_416_680,
    "tf_efficientnet_lite2": 6_092_072,
    "tf_efficientnet_lite3": 8_197_096,
    "tf_efficientnet_lite4": 13_006_568,
    "regnety_002": 3_162_996,
    "regnety_004": 4_344_144,
    "regnety_006": 6_055_160,
    "regnety_008": 6_263_168,
    "regnety_016": 11_202_430,
    "regnety_032": 19_436_338,
    "regnety_040": 20_646_656,
    "regnety_064": 30_583_252,
    "regnety_080": 39_180_068,
    "regnety_120": 51_822_544,
    "regnety_160": 83_590_140,
    "regnety_320": 145_046_770,
    "resmlp_12_224": 15_350_872,
    "resmlp_24_224": 30_020_680,
    "resmlp_36_224": 44_690_488,
    "resmlp_big_24_224": 129_138_280,
    "pvt_large": 61_369_320,
    "pvt_medium": 44_208_104,
    "pvt_small": 24_485_864,
    "pvt_tiny": 13_229_288,
    "pvt_v2_b0": 3_666_760,
    "pvt_v2_b1": 14_009_000,
    "pvt_v2_b2": 25_362_856,
    "pvt_v2_b2_li": 22_553_512,
    "pvt_v2_b3": 45_238_696,
    "pvt_v2_b4": 62_556_072,
    "pvt_v2_b5": 81_956_008,
    "resnext101_32x16d": 194_026_792,
    "resnext101_32x32d": 468_530_472,
    "resnext101_32x4d": 44_177_704,
    "resnext101_32x8d": 88_791_336,
    "resnext101_64x4d": 83_455_272,
    "resnext50_32x4d": 25_028_904,
    "wide_resnet101_2": 126_886_696,
    "wide_resnet50_2": 68_883_240,
    "t2t_vit_10_224": 5_889_230,
    "t2t_vit_12_224": 6_941_902,
    "t2t_vit_14_224": 21_545_550,
    "t2t_vit_14_384": 21_691_470,
    "t2t_vit_19_224": 39_177_422,
    "t2t_vit_24_224": 64_105_934,
    "t2t_vit_7_224": 4_310_222,
    "t2t_vit_t_14_224": 21_541_070,
    "t2t_vit_t_19_224": 39_172_942,
    "t2t_vit_t_24_224": 64_101_454,
    "vit_base_patch16_224": 86_567_656,
    "vit_base_patch16_384": 86_859_496,
    "vit_base_patch32_224": 88_224_232,
    "vit_base_patch32_384": 88_297_192,
    "vit_base_patch8_224": 86_576_872,
    "vit_large_patch16_224": 304_326_632,
    "vit_large_patch16_384": 304_715_752,
    "vit_large_patch32_384": 306_632_680,
    "vit_small_patch16_224": 22_050_664,
    "vit_small_patch16_384": 22_196_584,
    "vit_small_patch32_224": 22_878_952,
    "vit_small_patch32_384": 22_915_432,
    "vit_tiny_patch16_224": 5_717_416,
    "vit_tiny_patch16_384": 5_790_376,
    "xcit_large_24_p16_224": 189_096_136,
    "xcit_large_24_p16_384": 189_096_136,
    "xcit_large_24_p8_224": 188_932_648,
    "xcit_large_24_p8_384": 188_932_648,
    "xcit_medium_24_p16_224": 84_395_752,
    "xcit_medium_24_p16_384": 84_395_752,
    "xcit_medium_24_p8_224": 84_323_624,
    "xcit_medium_24_p8_384": 84_323_624,
    "xcit_nano_12_p16_224": 3_053_224,
    "xcit_nano_12_p16_384": 3_053_224,
    "xcit_nano_12_p8_224": 3_049_016,
    "xcit_nano_12_p8_384": 3_049_016,
    "xcit_small_12_p16_224": 26_253_304,
    "xcit_small_12_p16_384": 26_253_304,
    "xcit_small_12_p8_224": 26_213_032,
    "xcit_small_12_p8_384": 26_213_032,
    "xcit_small_24_p16_224": 47_671_384,
    "xcit_small_24_p16_384": 47_671_384,
    "xcit_small_24_p8_224": 47_631_112,
    "xcit_small_24_p8_384": 47_631_112,
    "xcit_tiny_12_p16_224": 6_716_272,
    "xcit_tiny_12_p16_384": 6_716_272,
    "xcit_tiny_12_p8_224": 6_706_504,
    "xcit_tiny_12_p8_384": 6_706_504,
    "xcit_tiny_24_p16_224": 12_116_896,
    "xcit_tiny_24_p16_384": 12_116_896,
    "xcit_tiny_24_p8_224": 12_107_128,
    "xcit_tiny_24_p8_384": 12_107_128,
}


def lazy(name: str, **arguments):
    """The model at full size with its shapes but without its memory."""
    with paddle.LazyGuard():
        return passl.create_model(name, **arguments)


def count(model) -> int:
    """Parameters without BatchNorm's running statistics, which Paddle counts among them."""
    return sum(p.size for n, p in model.named_parameters() if not n.endswith(("._mean", "._variance")))


def test_every_yaml_of_a_family_is_a_model_and_in_the_table():
    files = [path.stem for family in FAMILIES for path in (config_root() / family).glob("*.yaml")]
    assert sorted(files) == passl.list_models() == sorted(PARAMETERS)


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_parameters_equal_the_published_count_and_the_header(name):
    model = lazy(name)
    header = config_path(name).read_text().split("_base_:")[0]
    stated = re.search(r"^# parameters: ([\d,]+)$", header, re.MULTILINE)
    assert count(model) == PARAMETERS[name] == int(stated[1].replace(",", ""))


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_header_states_paper_command_and_expectation(name):
    path = config_path(name)
    text = path.read_text()
    assert re.search(r"^# paper: .* \d{4}, https://\S+$", text, re.MULTILINE)
    assert f"# command:    python tools/train.py -c configs/{path.parent.name}/{path.name}" in text
    assert re.search(r"^# expected: ", text, re.MULTILINE)


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_sizes_in_the_config_agree(name):
    config = get_config(config_path(name))
    crop, resize = (config.dataloader[s].dataset.transforms for s in ("train", "val"))
    size = config.model.architecture.get("img_size", crop[0]["size"])  # some take any size
    assert crop[0]["size"] == resize[-1]["size"] == size
    assert resize[0]["size"] in (size, size + 32, int(size / 0.9), int(size / 0.875))
    assert crop[0]["interpolation"] == resize[0]["interpolation"]
    assert config.dataloader.train.batch_transforms == config.dataloader.val.batch_transforms
    assert config.model.name == "Classifier"
    with paddle.LazyGuard():
        assert config.model.head.in_dim == lazy(name).num_features


def test_models_are_listed_by_pattern():
    assert passl.list_models("cait_xxs24*") == ["cait_xxs24_224", "cait_xxs24_384"]
    assert passl.list_models("nothing*") == []


def test_classes_and_architecture_can_be_changed():
    model = lazy("cait_xxs24_224", num_classes=7, depth=1, embed_dim=96)
    assert model.head.fc.weight.shape == [96, 7]
    assert len(model.architecture.blocks) == 1


def test_no_classes_gives_features():
    model = passl.create_model("cait_xxs24_224", num_classes=0, depth=1, img_size=32)
    assert model(paddle.randn([1, 3, 32, 32])).shape == [1, 192]


def test_weights_are_loaded_and_positions_resized(tmp_path):
    small = passl.create_model("cait_xxs24_224", num_classes=3, depth=1, img_size=32)
    save_weights(small, tmp_path / "weights.safetensors")
    same = passl.create_model("cait_xxs24_224", tmp_path / "weights.safetensors", 3, depth=1, img_size=32)
    assert all((value == same.state_dict()[name]).all() for name, value in small.state_dict().items())
    larger = passl.create_model("cait_xxs24_224", tmp_path / "weights.safetensors", 3, depth=1, img_size=(48, 32))
    assert larger.architecture.pos_embed.shape == [1, 6, 192]
    assert (larger.head.fc.weight == small.head.fc.weight).all()


def test_an_unknown_name_is_corrected():
    with pytest.raises(ConfigError, match="did you mean 'cait_xxs24_224'"):
        passl.create_model("cait_xs24_224")


def test_an_argument_that_the_backbone_does_not_have_is_corrected():
    with pytest.raises(ConfigError, match="CaiT has no argument 'dept' - did you mean 'depth'"):
        passl.create_model("cait_xxs24_224", dept=3)


def test_creating_a_model_leaves_the_catalogue_as_it_was():
    assert count(lazy("cait_xxs24_224", num_classes=10, depth=1)) < 2_000_000
    assert count(lazy("cait_xxs24_224")) == PARAMETERS["cait_xxs24_224"]
