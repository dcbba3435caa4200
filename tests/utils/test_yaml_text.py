# SPDX-License-Identifier: Apache-2.0
import math
import random
import string

import pytest
import yaml

from passl.utils.errors import ConfigError
from passl.utils.yaml_text import dump, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E-3", 1e-3),
        ("-2e+3", -2e3),
        (".5", 0.5),
        ("1.", 1.0),
        ("6.02e23", 6.02e23),
        ("1.0/255.0", 1 / 255),
        (".inf", math.inf),
        ("0", 0),
        ("010", 10),
        ("0x1F", 31),
        ("1_281_167", 1281167),
        ("(0.9, 0.999)", [0.9, 0.999]),
        ("[0.08, 1., 1e-2]", [0.08, 1.0, 0.01]),
        ("true", True),
        ("null", None),
        ("", None),
    ],
)
def test_numbers_read_as_numbers(text, value):
    got = parse(f"x: {text}")["x"]
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    "text",
    ["list", "1:30", "2024-01-01", "a=b=c", "1e", "e5", ".", "1.2.3", "1/2", "__import__('os')", "eval(1)", "=", "(a)"],
)
def test_other_plain_scalars_stay_text(text):
    assert parse(f"x: {text}")["x"] == text


@pytest.mark.parametrize("text", ["1e-5", "1", "true", "null", "(1, 2)", "1.0/3.0"])
def test_quoted_text_stays_text(text):
    assert parse(f"x: '{text}'")["x"] == text


def test_merge_keys_and_aliases_are_read():
    tree = parse("a: &x {k: 1, l: 2}\nb: *x\nc: {<<: *x, k: 3}")
    assert tree["b"] == {"k": 1, "l": 2} and tree["c"] == {"k": 3, "l": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1", "a.yaml:2: the indentation has a tab"),
        ("a:\n  b: 1\n \tc: 2", "a.yaml:3: the indentation has a tab"),
        ("a: 1\n\t# note", "a.yaml:2: the indentation has a tab"),
        ("a:\t1", "a.yaml:1: there is a tab"),
        ("a: b: c", "a.yaml:1: a second ':'"),
        ("a: 1\nb: 2\na: 3", "a.yaml:3: the key 'a' is already set in line 1"),
        ("a: {b: 1, b: 2}", "the key 'b' is already set"),
        ("x:\n- 1\n- {2: a}", "a.yaml:3: the key '2' is no text"),
        ("on: 1", "the key 'on' is no text"),
        ("? [a]\n: 1", "a.yaml:1: the key a list or mapping is no text"),
        ("a: !!python/object/apply:os.system [ls]", "a.yaml:1: the tag .*os.system' is refused"),
        ("a: !!set {b}", "is refused"),
        ("a: [1", "a.yaml:1: "),
        ("a: *b", "a.yaml:1: found undefined alias 'b'"),
        ("a: " + "[" * 500, "nesting is too deep"),
        ("a: " + "1" * 5000, "a.yaml: .*4300"),
        ("a: 1.0/0.0", "division by zero"),
        ("--- 1\n--- 2", "another document"),
        ("a: \x01", "not allowed"),
    ],
)
def test_bad_yaml_is_reported_with_file_and_line(text, message):
    if "4300" in message and not hasattr(__import__("sys"), "set_int_max_str_digits"):
        pytest.skip("this Python reads integers of any length")
    with pytest.raises(ConfigError, match=message):
        parse(text, "a.yaml")


def test_tabs_in_comments_and_texts_are_fine():
    assert parse("a: 1 #\tnote\nb: 'x\ty'\n") == {"a": 1, "b": "x\ty"}


def test_random_trees_survive_dump_and_parse():
    rng = random.Random(0)
    letters = string.ascii_letters + string.digits + " .:-+/#'\"[]{}(),&*!|>%@`~_=\té\n"
    words = ["1e-5", "yes", "no", "~", "null", "1:30", "2024-01-01", "(1, 2)", "1.0/3.0", "0o17", "010", ".5", "=", ""]

    def tree(depth):
        kind = rng.randrange(8 if depth else 6)
        if kind == 0:
            return rng.choice([True, False, None])
        if kind == 1:
            return rng.randrange(-(10**9), 10**9)
        if kind == 2:
            return rng.choice([1e-5, 1e22, -0.0, math.inf, 0.1]) * rng.choice([1, 3.7])
        if kind == 3:
            return rng.choice(words)
        if kind in (4, 5):
            return "".join(rng.choice(letters) for _ in range(rng.randrange(12)))
        if kind == 6:
            return [tree(depth - 1) for _ in range(rng.randrange(4))]
        return {(rng.choice(words) or "k") + str(i): tree(depth - 1) for i in range(rng.randrange(4))}

    for _ in range(200):
        original = {"a": tree(4), "b": tree(3)}
        assert parse(dump(original)) == original
        yaml.safe_load(dump(original))


def test_random_damage_gives_a_tree_or_a_config_error():
    rng = random.Random(1)
    text = "model: {name: A, head: [1, 2.5e-3]}\nlist:\n- a: &x {b: 1}\n- *x\n- 'quoted: text'\n# comment\nseed: 0\n"
    errors = 0
    for _ in range(400):
        damaged = list(text)
        for _ in range(rng.randrange(1, 5)):
            damaged[rng.randrange(len(damaged))] = rng.choice("\t\n :-[]{}&*!'\"#%|>@`,?ax1")
        try:
            parse("".join(damaged), "a.yaml")
        except ConfigError as error:
            errors += 1
            assert "a.yaml" in str(error)
    assert 0 < errors < 400
