# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from paddle import nn

from passl.optim import AdamW, freeze, param_groups, summarize
from passl.utils.errors import ConfigError
from tests.training_cases import HERE

CASE = json.loads((HERE / "optim/cases/layer_decay.json").read_text())


class TinyViT(nn.Layer):
    """The names and axes of timm's vit_tiny, one value per tensor."""

    num_layers = 12

    def __init__(self):
        super().__init__()
        for name, ndim in CASE["ndim"].items():
            layer = self
            *path, leaf = name.split(".")
            for part in path:
                if part not in dict(layer.named_children()):
                    layer.add_sublayer(part, nn.Layer())
                layer = dict(layer.named_children())[part]
            layer.add_parameter(leaf, layer.create_parameter([1] * ndim))

    def no_weight_decay(self):
        return {"cls_token", "pos_embed", "dist_token"}

    def layer_id(self, name):
        if name.startswith("blocks."):
            return int(name.split(".")[1]) + 1
        return 0 if name.startswith(("cls_token", "pos_embed", "patch_embed")) else self.num_layers + 1


class Method(nn.Layer):
    """A backbone below another name, and a head that numbers no layers."""

    def __init__(self):
        super().__init__()
        self.architecture = TinyViT()
        self.head = nn.Linear(1, 1)


def by_name(groups):
    return {name: (g["learning_rate"], g["weight_decay"]) for g in groups for name in g["names"]}


@pytest.mark.parity
@pytest.mark.parametrize("prefix", ["", "architecture."])
def test_layer_decay_and_weight_decay_equal_mae_and_beit(prefix):
    model = Method() if prefix else TinyViT()
    found = by_name(param_groups(model, **CASE["params"]))
    for name, (scale, decay) in CASE["lr_scale_and_weight_decay"].items():
        assert found[prefix + name] == (pytest.approx(scale, rel=1e-6), decay), name


@pytest.mark.parity
def test_the_rule_1d_decays_the_same_tensors_as_dino():
    groups = param_groups(TinyViT(), 0.04, no_decay="1d")
    assert {n for g in groups if g["weight_decay"] for n in g["names"]} == set(CASE["decayed_by_dino"])


def test_the_rule_none_decays_everything():
    (group,) = param_groups(TinyViT(), 0.04, no_decay="none")
    assert (len(group["params"]), group["weight_decay"]) == (152, 0.04)


def test_a_bias_with_several_axes_does_not_decay():
    layer = nn.Layer()
    layer.bias = layer.create_parameter([2, 2])
    assert by_name(param_groups(layer, 0.1)) == {"bias": (1.0, 0.0)}


def test_parameters_outside_of_the_backbone_learn_at_the_full_rate():
    assert by_name(param_groups(Method(), layer_decay=0.5))["head.weight"][0] == 1.0


def test_frozen_parameters_are_in_no_group_and_keep_their_place():
    model = Method()
    frozen, layers = freeze(model, ["architecture.patch_embed.*", "*.pos_embed"])
    assert sorted(frozen) == [
        f"architecture.{n}" for n in ("patch_embed.proj.bias", "patch_embed.proj.weight", "pos_embed")
    ]
    assert not set(frozen) & set(by_name(param_groups(model)))
    assert all(dict(model.named_parameters())[name].stop_gradient for name in frozen)
    assert layers == [model.architecture.patch_embed, model.architecture.patch_embed.proj]


def test_a_pattern_that_freezes_nothing_is_reported():
    with pytest.raises(ConfigError, match=r"'architecture.norm.wieght' matches no parameter - did you mean"):
        freeze(Method(), ["head.*", "architecture.norm.wieght"])


def test_the_summary_counts_each_tensor_once():
    model = Method()
    rows = summarize(param_groups(model, 0.05, layer_decay=0.75))
    assert sum(row["tensors"] for row in rows) == 154 == sum(row["parameters"] for row in rows)
    assert len(rows) == 2 * 14  # 14 depths, with and without decay
    assert rows[0] == {"tensors": 3, "parameters": 3, "weight_decay": 0.0, "learning_rate": 0.75**13}


def test_an_optimizer_takes_the_groups_as_they_are():
    optimizer = AdamW(param_groups(Method(), 0.05, layer_decay=0.75), learning_rate=0.1)
    assert len(optimizer.parameters) == 154


def test_layer_decay_without_numbered_layers_is_an_error():
    with pytest.raises(ValueError, match="needs a backbone that numbers its layers"):
        param_groups(nn.Linear(2, 2), layer_decay=0.75)


def test_unknown_rules_are_refused():
    with pytest.raises(ValueError, match="must be one of model, 1d, none"):
        param_groups(nn.Linear(2, 2), no_decay="bias")
    with pytest.raises(ValueError, match="layer_decay must be in"):
        param_groups(Method(), layer_decay=1.5)
