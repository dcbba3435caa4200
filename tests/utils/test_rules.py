# SPDX-License-Identifier: Apache-2.0
import pytest

from passl.utils.config import get_config
from passl.utils.schema import Check

BANK = "dataloader: {bank: {batch_size: 8, dataset: {name: Pictures, root: data}}}\n"


@pytest.fixture
def faults(good, write):
    """Faults of the good config with changes given as YAML."""
    return lambda changes: Check(get_config(write(f"_base_: {good}\n{changes}"))).faults


def test_a_head_takes_what_the_backbone_gives(faults):
    assert faults("model: {head: {in_dim: 24}}") == [
        "model.head.in_dim: is 24, but model.architecture (Net) gives 16 features; set model.head.in_dim to 16"
    ]
    assert faults("model: {head: {in_dim: 24}, architecture: {embed_dim: 24}}") == []


def test_the_width_is_compared_even_when_the_backbone_has_another_fault(faults):
    found = faults("model: {head: {in_dim: 24}, architecture: {typo: 1}}")
    assert len(found) == 2 and "gives 16 features" in found[1]


def test_patches_tile_the_image_even_when_the_backbone_has_another_fault(faults):
    assert len(faults("model: {architecture: {patch_size: 5}}")) == 1
    found = faults("model: {architecture: {patch_size: 5, typo: 1}}")
    assert len(found) == 2
    assert "model.architecture.img_size: 32x32 is not divisible by model.architecture.patch_size 5x5" in found[1]


def test_transforms_produce_the_size_of_the_backbone(faults):
    found = faults("dataloader: {val: {dataset: {transforms: [{name: Crop, size: 48}]}}}")
    assert found == [
        "dataloader.val.dataset.transforms: give images of 48x48 pixels, but model.architecture.img_size is 32x32; "
        "crop to 32x32 or set model.architecture.img_size to 48x48"
    ]
    assert len(faults("model: {architecture: {img_size: 48}}")) == 2


@pytest.mark.parametrize(
    "transforms",
    [
        "[{name: Crop, size: 48}, {name: Crop, size: 32}]",
        "[{name: Crop, size: 48}, {name: Resize, size: 40}]",
        "[{name: Views, views: [[{name: Crop, size: 32}], [{name: Crop, size: 16}]]}]",
        "[{name: Views, transforms: [{name: Crop, size: 32}]}]",
        "[]",
    ],
)
def test_sizes_that_fit_or_cannot_be_known_pass(faults, transforms):
    assert faults(f"dataloader: {{train: {{dataset: {{transforms: {transforms}}}}}}}") == []


def test_views_of_which_none_fits_are_a_fault(faults):
    views = "[{name: Views, views: [[{name: Crop, size: 48}], [{name: Crop, size: 16}]]}]"
    assert len(faults(f"dataloader: {{train: {{dataset: {{transforms: {views}}}}}}}")) == 1


def test_a_backbone_without_image_size_takes_any(faults):
    changes = (
        "model: {architecture: {name: Flat}}\ndataloader: {val: {dataset: {transforms: [{name: Crop, size: 48}]}}}"
    )
    assert faults(changes) == []


def test_loss_and_mixing_know_the_classes_of_the_head(faults):
    assert faults("model: {loss: {num_classes: 10}}") == []
    found = faults("model: {head: {num_classes: 3}, loss: {num_classes: 10}}")
    assert len(found) == 2
    assert found[0].startswith("model.loss.num_classes: is 10, but model.head.num_classes is 3")
    assert found[1].startswith("dataloader.train.batch_transforms.0.num_classes: is 10")


def test_evaluators_need_images(faults):
    assert faults("dataloader: {val: null}") == [
        "evaluate.evaluators: need the section dataloader.val, which is missing; add it or leave them out"
    ]
    found = faults("evaluate: {evaluators: [{name: Accuracy}, {name: Neighbours}]}")
    assert len(found) == 1 and found[0].startswith(
        "evaluate.evaluators.1: Neighbours learns from the section dataloader.bank"
    )
    assert faults(BANK + "evaluate: {evaluators: [{name: Neighbours}]}") == []


def test_the_best_checkpoint_needs_an_evaluator(faults):
    assert faults("checkpoint: {metric: top1}") == []
    assert faults("checkpoint: {metric: top_1}") == [
        "checkpoint.metric: is 'top_1', which no evaluator gives - did you mean 'top1'?"
    ]
    found = faults("checkpoint: {metric: top1}\nevaluate: {evaluators: []}")
    assert len(found) == 1 and found[0].startswith("checkpoint.metric: is 'top1', but evaluate.evaluators is empty")


def test_layer_decay_needs_numbered_layers(faults):
    assert faults("optimizer: {layer_decay: 0.75}") == []
    found = faults("optimizer: {layer_decay: 0.75}\nmodel: {architecture: {name: Flat}}")
    assert found == ["optimizer.layer_decay: is 0.75, but Flat does not number its layers (layer_id); remove it"]


def test_what_is_frozen_exists(faults):
    assert faults("optimizer: {freeze: ['architecture.*']}") == []
    found = faults("optimizer: {freeze: ['architecture.*', 'backbone.*']}")
    assert len(found) == 1 and found[0].startswith(
        "optimizer.freeze.1: 'backbone.*' matches no parameter; they have names"
    )


def test_an_argument_that_a_transform_does_not_have_says_nothing_of_the_size(faults):
    transforms = "[{name: Crop, size: 32}, {name: Views, size: 48}]"
    found = faults(f"dataloader: {{val: {{dataset: {{transforms: {transforms}}}}}}}")
    assert len(found) == 1 and "Views has no argument 'size'" in found[0]


@pytest.mark.parametrize("key", ["learning_rate", "weight_decay"])
def test_rates_are_finite_and_not_negative(faults, key):
    assert faults(f"optimizer: {{{key}: 0}}") == []
    for text, value in {"-0.1": "-0.1", ".nan": "nan", ".inf": "inf"}.items():
        expected = f"optimizer.{key}: is {value}; expected a finite number, 0 or more"
        assert faults(f"optimizer: {{{key}: {text}}}") == [expected]
