# SPDX-License-Identifier: Apache-2.0
import random

import pytest

from passl.utils.config import Config, get_config
from passl.utils.errors import ConfigError
from passl.utils.schema import Check, check_config
from passl.utils.sections import EXPERIMENT, REQUIRED, Component, Key, Section
from passl.utils.yaml_text import parse


def faults(*overrides, file="good.yaml", **kwargs):
    """Faults of the config after overrides that only change keys it has."""
    cfg = get_config(file)
    for override in overrides:
        path, _, text = override.partition("=")
        node = cfg
        *parents, last = path.split(".")
        for key in parents:
            node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
        value = parse(text)
        node[int(last) if isinstance(node, list) else last] = value
    return Check(cfg, **kwargs).faults


def test_a_good_config_passes_and_is_complete(good):
    cfg = get_config(good)
    before = cfg.copy()
    full = check_config(cfg)
    assert cfg == before
    assert isinstance(full, Config) and full.output_dir == "output/good"
    assert full.optimizer == {
        "name": "Descent", "learning_rate": 1e-3, "weight_decay": 0.0, "clip_norm": 1, "base_batch_size": None,
        "accumulate_steps": 1, "layer_decay": None, "no_decay": "model", "freeze": [],
    }  # fmt: skip
    assert full.dataloader.train.shuffle is True and full.dataloader.bank is None
    assert full.amp.enabled is False and full.checkpoint.keep_last == 3 and full.evaluate.every == 1

    def assert_complete(section, values):
        for name, key in section.keys.items():
            assert name in values
            if isinstance(key, Section) and values[name] is not None:
                assert_complete(key, values[name])

    assert_complete(EXPERIMENT, full)


def test_the_complete_config_passes_again_unchanged(good, write):
    full = check_config(get_config(good))
    assert check_config(get_config(write(full.to_yaml(), "full.yaml"))) == full


def test_defaults_are_not_shared_between_configs(good):
    one, two = check_config(get_config(good)), check_config(get_config(good))
    one.optimizer.freeze.append("x")
    assert two.optimizer.freeze == [] and check_config(get_config(good)).optimizer.freeze == []


def test_four_mistakes_give_one_report_with_all_four(good):
    cfg = get_config(good)
    cfg.epochs = 0
    cfg.model.architecture.drop_rte = 0.1
    cfg.model.head.name = "Hed"
    cfg.dataloader.train.dataset.transforms[0].size = "32"
    with pytest.raises(ConfigError) as caught:
        check_config(cfg)
    report = str(caught.value)
    assert report.startswith("good.yaml: 4 problems\n")
    assert "epochs: expected an integer or null in [1, inf), got 0" in report
    assert "model.architecture.drop_rte: Net has no argument 'drop_rte' - did you mean 'drop_rate'?" in report
    assert "model.head.name: no head is called 'Hed' - did you mean 'Head'?" in report
    assert "transforms.0.size: expected an integer, got '32' - remove its quotes" in report


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("seed=-1", "seed: expected an integer in [0, inf), got -1"),
        ("seed=true", "seed: expected an integer, got true"),
        ("device=cuda", "device: expected auto (a GPU if there is one), cpu, gpu, gpu:1, xpu or npu, got 'cuda'"),
        ("device=gpu:x", "device: expected"),
        ("output_dir=3", "output_dir: expected a text or null, got 3"),
        ("amp=true", "amp: expected a mapping with enabled, dtype, init_loss_scale, got true"),
        ("amp.dtype=fp16", "amp.dtype: expected 'bfloat16' or 'float16', got 'fp16'"),
        ("amp.enable=true", "amp.enable: there is no key 'enable' - did you mean 'enabled'?"),
        ("ema.decay=1.0", "ema.decay: expected a number in [0, 1), got 1.0"),
        ("optimizer.clip_norm=.nan", "optimizer.clip_norm: expected a number or null in (0, inf), got nan"),
        ("optimizer.layer_decay=0", "optimizer.layer_decay: expected a number or null in (0, 1], got 0"),
        ("optimizer.lr=1", "optimizer.lr: Descent has no argument 'lr' - there are learning_rate, weight_decay"),
        ("optimizer.parameters=[]", "optimizer.parameters: this argument of Descent is computed, remove it"),
        ("lr_scheduler.base=1", "lr_scheduler.base: this argument of Falling is computed"),
        ("lr_scheduler.warmup=1", "Falling has no argument 'warmup' - did you mean 'warmup_epochs'?"),
        ("lr_scheduler.warmup_epochs=-1", "lr_scheduler: Falling cannot be built: the warm-up cannot be negative"),
        ("model.loss.smoothing=2", "model.loss: Loss cannot be built: smoothing must be in [0, 1), got 2"),
        ("model.architecture.img_size=33", "model.architecture: Net cannot be built: img_size 33 must be divisible"),
        ("model.architecture.img_size=null", "model.architecture: Net cannot be built: "),
        ("model.architecture.drop_rate='0.1'", "drop_rate: expected a value like 0.0, got the text '0.1' - remove"),
        ("model.head={name: Head, in_dim: 16}", "model.head.num_classes: missing; Head needs this argument"),
        ("model.head=Head", "model.head: a head is written as {name: ..., ...}, got 'Head'"),
        ("model={name: Supervised}", "model.architecture: missing; Supervised needs this argument"),
        ("model=null", "model: a method is written as {name: ..., ...}, got null"),
        ("dataloader.train.batch_size=0", "dataloader.train.batch_size: expected an integer in [1, inf), got 0"),
        ("dataloader.train.num_workers=all", "num_workers: expected an integer or 'auto', got 'all'"),
        ("dataloader.train.num_workers=-1", "num_workers: expected an integer or 'auto' in [0, inf), got -1"),
        ("dataloader.train.dataset=null", "dataloader.train.dataset: a dataset is written as"),
        ("dataloader.train.dataset.split=test", "dataset.split: expected 'train' or 'val', got 'test'"),
        ("dataloader.train.dataset.transforms=[Crop]", "transforms.0: a transform is written as {name: ..., ...}"),
        ("dataloader.train.dataset.transforms.0.size=0", "transforms.0: Crop cannot be built: size must be positive"),
        ("dataloader.val.dataset.transforms=[{name: Views, views: [[{name: Crp}]]}]", "0.views.0.0.name: no"),
        ("dataloader.train.batch_transforms={name: Mix}", "batch_transforms: expected a list of {name: ...}"),
        ("dataloader.val.shuffle=true", "dataloader.val.shuffle: there is no key 'shuffle' - did you mean"),
        ("dataloader.valid={}", "dataloader.valid: there is no key 'valid' - did you mean 'val'?"),
        ("batch_size=8", "batch_size: there is no key 'batch_size' - did you mean 'dataloader.train.batch_size'?"),
        ("lr_config={a: 1}", "lr_config: there is no key 'lr_config' - see 'lr_scheduler', which replaces it"),
        ("evaluate.evaluators=[{name: Accuracy, k: 1}]", "evaluators.0.k: Accuracy has no argument 'k' - there are"),
    ],
)  # fmt: skip
def test_each_fault_names_key_value_and_way_out(good, override, fault):
    found = faults(override)
    assert len([f for f in found if fault in f]) == 1, found


def test_a_missing_key_says_what_it_is_for(good):
    cfg = get_config(good)
    del cfg.dataloader.train.batch_size, cfg.model
    found = Check(cfg).faults
    assert "dataloader.train.batch_size: missing; it is images in a batch of one process" in found
    assert any(f.startswith("model: missing; it is the method") for f in found)


def test_what_training_needs_is_asked_for_only_then(good):
    cfg = Config(model=get_config(good).model)
    found = Check(cfg).faults
    assert [f.split(":")[0] for f in found] == ["epochs", "dataloader.train", "optimizer", "lr_scheduler"]
    assert check_config(cfg, training=False).optimizer is None


def test_a_section_may_be_null(good):
    assert faults("amp=null", "ema=null", "dataloader.val=null", "evaluate=null") == []


def test_integers_pass_as_numbers_and_null_where_allowed(good):
    assert faults("optimizer.clip_norm=1", "ema.decay=0", "checkpoint.keep_last=null", "amp.init_loss_scale=1024") == []


def test_a_text_that_is_no_config_is_a_fault_not_a_crash(good):
    rng = random.Random(0)
    junk = [
        None,
        True,
        -1,
        0.5,
        "x",
        [],
        [1],
        {},
        {"name": None},
        {"name": "Nope"},
        [{"name": "Crop"}],
        {"name": ["a"]},
    ]
    for _ in range(100):
        cfg = get_config("good.yaml")
        for _ in range(rng.randrange(1, 4)):
            node, keys = cfg, []
            while isinstance(node, (dict, list)) and node and (not keys or rng.random() < 0.8):
                parent, key = node, rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
                node = parent[key]
                keys.append(key)
            parent[key] = rng.choice(junk)
        assert all(": " in fault for fault in Check(cfg).faults)


def test_building_leaves_no_memory_behind_and_opens_no_data(good):
    check = Check(get_config(good))
    assert "model" in check.built and "dataloader.train.dataset" not in check.built
    assert not check.built["model"].head.fc.weight._is_initialized()
    assert "model" not in Check(get_config(good), build=False).built


# ---------------------------------------------------------------- overrides


def test_an_override_may_set_what_the_file_leaves_at_its_default(good):
    cfg = get_config(
        good, ["amp.enabled=true", "model.architecture.drop_rate=0.1", "ema.decay=0.9", "log.every_steps=3"]
    )
    assert cfg.amp.enabled is True and cfg.model.architecture.drop_rate == 0.1
    assert check_config(cfg).ema.decay == 0.9


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("new.key=1", "new: there is no key 'new'"),
        ("epoch=1", "epoch: there is no key 'epoch' - did you mean 'epochs'?"),
        ("amp.enable=true", "amp.enable: there is no key 'enable' - did you mean 'enabled'?"),
        ("model.architecture.drp_rate=1", "Net has no argument 'drp_rate' - did you mean 'drop_rate'?"),
        ("dataloader.train.sampler.batch_size=4", "dataloader.train.sampler: there is no key 'sampler'"),
        ("_base_=x.yaml", "_base_: there is no key '_base_'"),
        ("amp.dtype=half", "amp.dtype: expected 'bfloat16' or 'float16', got 'half'"),
    ],
)
def test_an_override_that_the_schema_does_not_know_is_refused(good, override, fault):
    with pytest.raises(ConfigError) as caught:
        get_config(good, [override])
    assert fault in str(caught.value)


def test_bad_overrides_and_other_faults_come_in_one_report(good):
    with pytest.raises(ConfigError) as caught:
        get_config(good, ["epochs", "dataloader.train.dataset.transforms.5.size=1", "seed=-1", "amp.enable=true"])
    assert len(caught.value.problems) == 4
    assert (
        "-o dataloader.train.dataset.transforms.5.size=1: 'dataloader.train.dataset.transforms' is a list with 1"
        in str(caught.value)
    )


def test_faults_elsewhere_do_not_stop_a_config_that_is_only_read(good, write):
    cfg = get_config(write("_base_: good.yaml\nmodel: {architecture: {typo: 1}}"), ["amp.enabled=true"])
    assert cfg.amp.enabled is True
    with pytest.raises(ConfigError, match="typo"):
        check_config(cfg)


def test_another_optimizer_by_override_reports_arguments_it_does_not_have(good):
    cfg = get_config(good, ["optimizer.name=Other"])
    assert check_config(cfg).optimizer.name == "Other"
    cfg.optimizer.weight_decay = 0.1
    with pytest.raises(ConfigError, match=r"optimizer.weight_decay: Other has no argument 'weight_decay'"):
        check_config(cfg)


def test_a_whole_component_can_be_given_by_override(good):
    cfg = check_config(get_config(good, ["optimizer={name: Other, learning_rate: 0.1}"]))
    assert cfg.optimizer.name == "Other" and cfg.optimizer.clip_norm is None


# ---------------------------------------------------------------- sections


def test_every_default_obeys_its_own_type_and_range(good):
    def visit(section):
        for key in section.keys.values():
            if isinstance(key, Section):
                yield from visit(key)
            else:
                yield from key.extra.values() if isinstance(key, Component) else [key]

    check = Check(get_config(good))
    for key in visit(EXPERIMENT):
        if isinstance(key, Key) and key.default is not REQUIRED:
            check.value("key", key.default, key)
    assert check.faults == []
