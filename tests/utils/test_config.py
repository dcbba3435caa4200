# SPDX-License-Identifier: Apache-2.0
import copy
import pickle

import pytest

from passl.utils.config import Config, config_root, get_config, merge
from passl.utils.errors import ConfigError


def report(call, *args, **kwargs):
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# ---------------------------------------------------------------- Config


def test_keys_are_attributes_at_every_depth_and_inside_lists():
    cfg = Config({"model": {"head": {"in_dim": 3}}, "steps": [{"size": 4}]})
    assert cfg.model.head.in_dim == cfg["model"]["head"]["in_dim"] == 3
    assert cfg.steps[0].size == 4
    cfg.model.head = {"in_dim": 5}
    assert cfg.model.head.in_dim == 5
    cfg.update(ema={"decay": 0.5})
    assert cfg.ema.decay == 0.5
    cfg.setdefault("log", {})["every"] = 3
    assert cfg.log.every == 3
    del cfg.ema
    assert "ema" not in cfg and not hasattr(cfg, "ema")


def test_a_missing_key_names_the_closest_one():
    cfg = Config(model={}, dataloader={})
    for error in (AttributeError, KeyError, ConfigError):
        with pytest.raises(error, match="no key 'modle' here - did you mean 'model'"):
            _ = cfg.modle
    with pytest.raises(KeyError, match="it has: model, dataloader"):
        _ = cfg["zzz"]
    with pytest.raises(AttributeError, match="modle"):
        del cfg.modle
    assert cfg.get("zzz") is None


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, Config.copy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copy_is_equal_and_independent(duplicate):
    cfg = Config({"a": {"b": [1, {"c": 2}]}})
    twin = duplicate(cfg)
    assert twin == cfg and type(twin) is Config
    assert twin.a.b[1].c == 2
    twin.a.b[1].c = 3
    twin.a.d = 4
    assert cfg == {"a": {"b": [1, {"c": 2}]}}


def test_to_dict_is_plain_at_every_depth():
    plain = Config({"a": {"b": [{"c": 2}]}}).to_dict()
    assert type(plain) is type(plain["a"]) is type(plain["a"]["b"][0]) is dict


# ---------------------------------------------------------------- files and bases


@pytest.mark.parametrize(("text", "got"), [("- 1", "a list"), ("", "nothing"), ("text", "a str")])
def test_a_config_is_a_mapping(write, text, got):
    assert f"a config is a mapping of sections (`model:`, `dataloader:`, ...), got {got}" in report(
        get_config, write(text)
    )


def test_an_alias_gives_an_independent_copy_and_may_not_contain_itself(write):
    path = write("a: &x {k: 1}\nb: *x")
    cfg = get_config(path)
    cfg.a.k = 9
    assert cfg.b.k == 1
    assert get_config(path, ["a.k=5"]) == {"a": {"k": 5}, "b": {"k": 1}}
    assert "contains itself" in report(get_config, write("a: &x [*x]"))


def test_bad_yaml_is_reported_with_its_file(write):
    assert "m/a.yaml:2: the indentation has a tab" in report(get_config, write("a:\n\tb: 1", "m/a.yaml"))


def test_a_file_that_is_no_text_is_an_error(write, tmp_path):
    (tmp_path / write("")).write_bytes(b"\xff\xfe\x00")
    assert "a.yaml: 1 problem" in report(get_config, "a.yaml") and "UTF-8" in report(get_config, "a.yaml")


def test_a_byte_order_mark_is_ignored(write):
    assert get_config(write("\ufeffa: 1")) == {"a": 1}


def test_differences_name_each_value_that_changed(write):
    cfg = get_config(write("a: {b: 1, c: [1, 2]}\nd: {}\ne: null"))
    assert cfg.differences("a.yaml") == []
    cfg.a.b = 2
    cfg.a.c = [1]
    cfg.f = True
    del cfg.e
    assert cfg.differences("a.yaml") == [
        "a.b: 1 -> 2", "a.c.1: 2 -> (not set)", "e: None -> (not set)", "f: (not set) -> True",
    ]  # fmt: skip


def test_a_missing_file_names_the_nearest(write):
    write("a: 1", "configs/cait/cait_s24_224.yaml")
    message = report(get_config, "configs/cait/cait_s24.yaml")
    assert "there is no config file" in message and "did you mean 'configs/cait/cait_s24_224.yaml'" in message


def test_a_folder_lists_its_configs(write):
    write("a: 1", "cait/x.yaml")
    assert "x.yaml" in report(get_config, "cait")


def test_shipped_configs_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("passl.utils.config.config_root", lambda: tmp_path / "shipped")
    (tmp_path / "shipped" / "cait").mkdir(parents=True)
    (tmp_path / "shipped" / "cait" / "x.yaml").write_text("a: 1")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert get_config("configs/cait/x.yaml") == get_config("cait/x.yaml") == {"a": 1}
    (tmp_path / "elsewhere" / "own.yaml").write_text("_base_: configs/cait/x.yaml\nb: 2")
    assert get_config("own.yaml") == {"a": 1, "b": 2}
    assert "did you mean 'configs/cait/x.yaml'" in report(get_config, "configs/cait/xx.yaml")


def test_the_config_root_lies_in_or_beside_the_package():
    assert config_root().name == "configs"


def test_bases_merge_in_order_below_the_file(write):
    write("a: 1\nb: {x: 1, y: [1, 2]}\nc: 1", "_base_/one.yaml")
    write("b: {y: [3]}\nc: 2", "_base_/two.yaml")
    cfg = get_config(write("_base_: [../_base_/one.yaml, ../_base_/two.yaml]\nb: {z: 0}\nd: null", "m/a.yaml"))
    assert cfg == {"a": 1, "b": {"x": 1, "y": [3], "z": 0}, "c": 2, "d": None}


def test_a_renamed_component_replaces_and_the_same_name_merges():
    base = {"optimizer": {"name": "AdamW", "beta1": 0.9}, "ema": {"decay": 0.9}}
    assert merge(base, {"optimizer": {"name": "SGD"}})["optimizer"] == {"name": "SGD"}
    assert merge(base, {"optimizer": {"name": "AdamW", "lr": 1}})["optimizer"] == {
        "name": "AdamW",
        "beta1": 0.9,
        "lr": 1,
    }
    assert merge(base, {"optimizer": {"lr": 1}})["optimizer"] == {"name": "AdamW", "beta1": 0.9, "lr": 1}
    assert merge(base, {"ema": None})["ema"] is None
    assert base == {"optimizer": {"name": "AdamW", "beta1": 0.9}, "ema": {"decay": 0.9}}


def test_three_levels_of_bases_are_read_and_four_are_refused(write):
    write("v: 0\nw: 0", "0.yaml")
    for level in range(1, 5):
        write(f"_base_: {level - 1}.yaml\nv: {level}", f"{level}.yaml")
    assert get_config("3.yaml") == {"v": 3, "w": 0}
    assert "3 levels deep, this is deeper: 4.yaml -> 3.yaml -> 2.yaml -> 1.yaml -> 0.yaml" in report(
        get_config, "4.yaml"
    )


def test_a_circle_of_bases_is_refused(write):
    write("_base_: b.yaml", "a.yaml")
    write("_base_: a.yaml", "b.yaml")
    assert "circle: a.yaml -> b.yaml -> a.yaml" in report(get_config, "a.yaml")


def test_a_missing_base_names_the_file_that_wants_it_and_the_nearest(write):
    write("a: 1", "_base_/imagenet.yaml")
    message = report(get_config, write("_base_: ../_base_/imagenets.yaml", "m/a.yaml"))
    assert "m/a.yaml: 1 problem" in message
    assert (
        "_base_: there is no config file '../_base_/imagenets.yaml' - did you mean '../_base_/imagenet.yaml'" in message
    )
    assert "file name or a list" in report(get_config, write("_base_: {a: 1}"))


# ---------------------------------------------------------------- overrides


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("t.1.size=160", ("t", 1, "size"), 160),
        ("a.lr=1e-3", ("a", "lr"), 1e-3),
        ("a.lr = 2", ("a", "lr"), 2),
        ("out=a=b=c", ("out",), "a=b=c"),
        ("out=list", ("out",), "list"),
        ("out='1e-3'", ("out",), "1e-3"),
        ("out=null", ("out",), None),
        ("out=", ("out",), None),
        ("out=__import__('os')", ("out",), "__import__('os')"),
        ("a={name: B, k: [1, 2]}", ("a",), {"name": "B", "k": [1, 2]}),
        ("t.0={size: 7}", ("t", 0, "size"), 7),
    ],
)
def test_an_override_sets_the_value_that_yaml_reads(write, override, path, value):
    node = get_config(write("t: [{size: 1}, {size: 2}]\na: {lr: 1}\nout: x"), [override])
    for key in path:
        node = node[key]
    assert node == value


def test_later_overrides_see_and_beat_earlier_ones(write):
    assert get_config(write("a: 1\nb: 1"), ["a=[1, 2]", "a.1=5", "b=2", "b=3"]) == {"a": [1, 5], "b": 3}


def test_one_override_may_be_given_as_a_text_and_none_as_none(write):
    assert get_config(write("a: 1"), "a=2") == {"a": 2}
    assert get_config("a.yaml", None) == {"a": 1}


def test_every_bad_override_is_in_one_report(good, write):
    bad = ["a", "=1", "t.2=1", "t.x.size=1", "out.deep=1", "a..b=1", "out=[1", "out=!!python/name:os.system x"]
    message = report(get_config, write("t: [{size: 1}, {size: 2}]\nout: x"), bad)
    for expected in (
        "-o a: expected the form key=value",
        "-o =1: expected",
        "-o t.2=1: 't' is a list with 2 entries (0 is the first), it has no '2'",
        "-o t.x.size=1: 't' is a list with 2 entries",
        "-o out.deep=1: 'out' is 'x': nothing can be set below it",
        "-o a..b=1: expected",
        "-o out=[1: ",
        "-o out=!!python/name:os.system x: the tag",
    ):
        assert expected in message
