# SPDX-License-Identifier: Apache-2.0
"""tools/eval.py obeys the card of the weights, and says so."""

import json

import numpy as np
import pytest

from passl.catalogue import config_path
from passl.engine.card import apply_card, find_card
from passl.engine.setup import setup_evaluation
from passl.utils.annotations import arguments
from passl.utils.config import get_config
from passl.utils.errors import ConfigError
from passl.utils.registry import BACKBONES
from passl.utils.schema import check_config
from passl.weights import known_cards, read_card, save_card, save_weights
from tests.tools.tiny import IMAGENET, Tiny, make_card, pixels, probabilities

HALF = (0.5,) * 3, (0.5,) * 3


@pytest.fixture
def tiny(tmp_path, monkeypatch, capsys):
    return Tiny(tmp_path, monkeypatch, capsys)


def evaluate(tiny, *arguments):
    """The figures of tools/eval.py and what it printed."""
    result = tiny.folder / "result.json"
    code, output, error = tiny.run("eval", "-c", tiny.config, "--weights", tiny.weights, "--json", result, *arguments)
    assert (code, error) == (0, ""), error
    return json.loads(result.read_text()), output


def refused(tiny, *arguments):
    """The message with which tools/eval.py refuses."""
    code, _, error = tiny.run("eval", "-c", tiny.config, "--weights", tiny.weights, *arguments)
    assert code == 1
    return error


def by_hand(tiny, method, mean=HALF[0], std=HALF[1], resize=36, **settings):
    """Loss and top-1 of all images."""
    found = probabilities(method, [pixels(path, resize, **settings) for path in tiny.images], mean, std)
    labels = np.repeat(np.arange(3), 2)
    return {
        "loss": -np.log(found[np.arange(6), labels]).mean(),
        "top1": 100 * (found.argmax(1) == labels).mean(),
    }


def assert_figures(found, expected):
    assert found["loss"] == pytest.approx(expected["loss"], abs=2e-5)
    assert found["top1"] == pytest.approx(expected["top1"])


def loaded(tiny, card, *overrides, evaluators="[{name: TopK}]"):
    """What setup_evaluation makes of the config under a card."""
    overrides = [*overrides, f"evaluate.evaluators={evaluators}"]
    cfg = apply_card(check_config(get_config(tiny.config, overrides), training=False), card, overrides)
    return setup_evaluation(cfg, str(tiny.weights))


COLOURS = {"mean": (0.2, 0.4, 0.6), "std": (0.9, 0.3, 0.4)}
CARDS = {
    "crop fraction": ({"crop_fraction": 0.5}, {"resize": 64}),
    "squash": ({"crop_mode": "squash"}, {"squash": True}),
    "interpolation": ({"interpolation": "bicubic"}, {"interpolation": "bicubic"}),
    "normalisation": (COLOURS, COLOURS),
}


@pytest.mark.parametrize(("fields", "settings"), CARDS.values(), ids=CARDS)
def test_each_field_of_the_card_changes_what_the_model_sees(tiny, fields, settings):
    tiny.save(make_card(**fields))
    expected = by_hand(tiny, tiny.method(), **settings)
    assert_figures(evaluate(tiny)[0], expected)
    plain = by_hand(tiny, tiny.method(), *IMAGENET)  # what the config alone says
    assert abs(expected["loss"] - plain["loss"]) > 1e-3


def test_the_pixels_of_validation_and_bank_are_the_cards(tiny):
    card = make_card(crop_fraction=0.7, crop_mode="squash", interpolation="bicubic", mean=(0.1, 0.2, 0.3))
    tiny.save(card)
    _, _, *loaders = loaded(tiny, card, evaluators="[{name: KNN, k: [1]}]")
    hand = np.stack([pixels(path, 45, interpolation="bicubic", squash=True) for path in tiny.images])
    for loader in loaders:
        assert (np.concatenate([batch["image"].numpy() for batch in loader]) == hand).all()
        assert [(t.mean, t.std) for t in loader.batch_transforms] == [([0.1, 0.2, 0.3], [0.5, 0.5, 0.5])]


def test_the_norms_have_the_cards_epsilon(tiny):
    tiny.save(make_card(norm_eps=1e-3))
    found, output = evaluate(tiny)
    assert_figures(found, by_hand(tiny, tiny.method(epsilon=1e-3)))
    assert abs(found["loss"] - by_hand(tiny, tiny.method())["loss"]) > 1e-3
    assert "model.architecture.epsilon 1e-06" in output


def test_the_model_is_built_at_the_cards_size(tiny):
    tiny.save(make_card(img_size=48, crop_fraction=0.75), img_size=48)
    assert_figures(evaluate(tiny)[0], by_hand(tiny, tiny.method(img_size=48), resize=64, crop=48))


def test_a_line_says_what_is_the_cards_and_what_the_config_had(tiny):
    tiny.save(make_card(crop_fraction=0.5))
    _, output = evaluate(tiny)
    line = next(line for line in output.splitlines() if "tiny.test_in1k rules" in line)
    assert (
        "32 pixels, crop fraction 0.5 (center), bilinear, mean 0.5 0.5 0.5, std 0.5 0.5 0.5, norm epsilon 1e-06" in line
    )
    assert "dataloader.val.dataset.transforms Resize(size=36, interpolation='bilinear'), CenterCrop" in line
    assert "dataloader.bank.batch_transforms Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])" in line
    assert "img_size" not in line and "epsilon 1e-06," not in line


def test_other_spellings_of_the_same_are_no_difference(tiny):
    card = make_card(mean=IMAGENET[0], std=IMAGENET[1])
    tiny.save(card)
    assert "the config says the same" in evaluate(tiny)[1]


def test_the_published_accuracy_stands_beside_the_measured_one(tiny):
    tiny.save(make_card(top1=12.34))
    found, output = evaluate(tiny)
    assert found["card"] == "tiny.test_in1k" and found["published_top1"] == 12.34
    row = next(line for line in output.splitlines() if line.startswith("  top1"))
    assert f"{found['top1']:.4f}   published on ImageNet-1k: 12.34, difference {found['top1'] - 12.34:+.2f}" in row
    assert output.count("published on") == 1


def test_without_a_published_figure_none_is_printed(tiny):
    tiny.save(make_card(top1=None))
    found, output = evaluate(tiny)
    assert found["published_top1"] is None and "published on" not in output


def test_no_card_lets_the_config_rule_and_says_so(tiny):
    tiny.save(make_card(crop_fraction=0.5, norm_eps=1e-3, num_classes=7))
    found, output = evaluate(tiny, "--no-card")
    assert_figures(found, by_hand(tiny, tiny.method(), *IMAGENET))
    assert f"a card of {tiny.weights} is ignored, the config rules" in output
    assert "card" not in found and "published on" not in output


def test_a_broken_card_is_an_error_that_no_card_passes_by(tiny):
    tiny.save(None)
    tiny.weights.with_suffix(".json").write_text('{"name": "w", "model": "tiny", "crop": 1}')
    assert "a card has no field 'crop'" in refused(tiny)
    evaluate(tiny, "--no-card")


def test_weights_without_a_card_are_evaluated_as_the_config_says(tiny):
    tiny.save(None)
    found, output = evaluate(tiny)
    assert_figures(found, by_hand(tiny, tiny.method(), *IMAGENET))
    assert "the card" not in output and "card" not in found


def test_a_card_in_the_header_is_enough(tiny):
    tiny.save(make_card(crop_fraction=0.5))
    tiny.weights.with_suffix(".json").unlink()
    assert_figures(evaluate(tiny)[0], by_hand(tiny, tiny.method(), resize=64))


def test_a_checkpoint_folder_has_no_card(tiny):
    folder = tiny.folder / "step_00000001"
    folder.mkdir()
    save_card(make_card(), folder)
    assert read_card(folder) is not None and find_card(str(folder)) is None


@pytest.mark.parametrize(
    "override",
    [
        "dataloader.val.dataset.transforms.0.size=40",
        "dataloader.val.dataset.transforms=[{name: CenterCrop, size: 32}]",
        "dataloader.bank.batch_transforms.0.mean=clip",
        "dataloader.val.dataset={name: ImageFolder, root: x, transforms: [{name: CenterCrop, size: 32}]}",
        "model.architecture.epsilon=0.01",
    ],
)
def test_an_override_that_contradicts_the_card_is_an_error_that_names_both(tiny, override):
    tiny.save(make_card(mean=IMAGENET[0], std=IMAGENET[1]))
    error = refused(tiny, "-o", override)
    assert f"-o {override}: contradicts the card, which says " in error and "--no-card" in error
    assert "1 problem" in error


def test_overrides_that_agree_with_the_card_or_set_something_else_are_taken(tiny):
    images = tiny.folder / "images"
    overrides = [
        *("-o", "dataloader.val.dataset.transforms.0.size=64"),
        *("-o", f"dataloader.bank.dataset={{name: ImageFolder, root: {images}}}"),
        *("-o", "dataloader.val.batch_size=2"),
        *("-o", "model.architecture.epsilon=1.0e-6"),
    ]
    tiny.save(make_card(crop_fraction=0.5))
    assert_figures(evaluate(tiny, *overrides)[0], by_hand(tiny, tiny.method(), resize=64))


# the card of another model


def test_another_number_of_classes_is_an_error(tiny):
    tiny.save(make_card(num_classes=10))
    assert "model.head.num_classes: is 3, but the weights have 10 classes; set it to 10" in refused(tiny)


def test_a_model_that_nobody_knows_is_an_error(tiny):
    tiny.save(make_card(model="huge"))
    assert "model: the card is of 'huge', which is neither in the catalogue nor this config" in refused(tiny)


def test_a_model_of_the_catalogue_must_be_the_one_that_the_config_builds(tiny):
    tiny.save(make_card(model="deit_tiny_patch16_224"))
    error = refused(tiny)
    assert "model.architecture.depth: is 1, but 12 in 'deit_tiny_patch16_224', the model of the weights" in error
    assert "use -c configs/deit/deit_tiny_patch16_224.yaml" in error
    assert "img_size" not in error and "drop" not in error


def test_a_model_of_another_family_is_named(tiny):
    tiny.save(make_card(model="resnet18"))
    assert "model.architecture.name: is ViT, but ResNet in 'resnet18'" in refused(tiny)


def test_what_tensors_do_not_show_must_agree_too(tiny):
    tiny.in_catalogue("published")
    other = tiny.folder / "mine.yaml"
    other.write_text(tiny.config.read_text().replace("num_heads: 2", "num_heads: 4"))
    tiny.save(make_card(model="published"))
    tiny.config = other
    assert "model.architecture.num_heads: is 4, but 2 in 'published'" in refused(tiny)


def test_the_same_model_under_another_name_is_accepted(tiny):
    tiny.in_catalogue("published")
    other = tiny.folder / "mine.yaml"
    text = tiny.config.read_text()
    other.write_text(text.replace("num_heads: 2", "num_heads: 2, mlp_ratio: 4, init_values: null, drop_path_rate: 0.1"))
    tiny.save(make_card(model="published"))
    tiny.config = other
    evaluate(tiny)


def test_a_model_without_that_argument_must_have_the_cards_epsilon(tiny):
    network = "architecture: {name: StridedCNN, img_size: 32, widths: [8, 16]}\n  head: {name: ClsHead, in_dim: 1024, "
    lines = tiny.config.read_text().splitlines()
    lines[3:5] = [f"  {network}num_classes: 3}}"]
    tiny.config.write_text("\n".join(lines))
    tiny.save(make_card(norm_eps=1e-6))
    error = refused(tiny)
    assert "the norms of StridedCNN have epsilon 1e-05, which no argument changes, but the card says 1e-06" in error
    save_card(make_card(norm_eps=1e-5), tiny.weights)
    assert_figures(evaluate(tiny)[0], by_hand(tiny, tiny.method()))


@pytest.mark.slow
@pytest.mark.parametrize("name", known_cards())
def test_every_known_card_fits_its_model_of_the_catalogue(name):
    card = known_cards()[name]
    cfg = check_config(get_config(config_path(card.model)), training=False)
    architecture = apply_card(cfg, card).model.architecture
    defaults, _ = arguments(BACKBONES.get(architecture.name))
    own = {name: argument.default for name, argument in defaults.items()} | cfg.model.architecture
    assert own == {**own, **architecture}  # so that create_model needs no card


def test_a_size_that_the_model_cannot_have_is_an_error(tiny):
    tiny.save(make_card(img_size=40))
    error = refused(tiny)
    assert "tiny.test_in1k" in error and "40" in error and "patch" in error


def test_top_k_needs_a_classifier_of_the_weights(tiny):
    backbone = tiny.method().architecture
    save_weights(backbone, tiny.weights, make_card())
    assert "has no classifier for this model: head.fc.weight (not in the file)" in refused(tiny)
    method, *_ = loaded(tiny, make_card(), evaluators="[{name: KNN, k: [1]}]")
    assert (method.architecture.pos_embed == backbone.pos_embed).all()


def test_figures_never_replace_the_card(tiny):
    tiny.save(make_card())
    assert "is where the card of" in refused(tiny, "--json", tiny.weights.with_suffix(".json"))
    assert read_card(tiny.weights) == make_card()


def test_a_card_leaves_the_config_it_is_given_unchanged(tiny):
    cfg = check_config(get_config(tiny.config), training=False)
    before = cfg.to_yaml()
    ruled = apply_card(cfg, make_card(crop_fraction=0.5, norm_eps=1e-3))
    assert cfg.to_yaml() == before and ruled.dataloader.train is None
    with pytest.raises(ConfigError):
        apply_card(cfg, make_card(num_classes=4))
    assert cfg.to_yaml() == before
