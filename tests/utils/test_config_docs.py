# SPDX-License-Identifier: Apache-2.0
"""docs/config.md says what the code does.  To bring it up to date: ``python -m tests.utils.test_config_docs``."""

import os
import re
from pathlib import Path

import pytest

from passl.utils.annotations import describe, show
from passl.utils.config import get_config
from passl.utils.errors import ConfigError
from passl.utils.schema import check_config
from passl.utils.sections import EXPERIMENT, REQUIRED, Component, Key, Section

DOC = Path(__file__).resolve().parents[2] / "docs" / "config.md"


def reference() -> str:
    """The tables of all sections."""
    return "\n\n".join(_tables("", EXPERIMENT))


def _tables(path, section):
    keys = _table(section.keys) if path != "dataloader.bank" else "Keys as in `dataloader.val`."
    yield f"### {f'`{path}`' if path else 'Top level'}\n\n{section.doc}\n\n{keys}"
    for name, key in section.keys.items():
        below = f"{path}.{name}" if path else name
        if isinstance(key, Section):
            yield from _tables(below, key)
        elif isinstance(key, Component) and key.extra:
            yield f"### `{below}`\n\nBeside the arguments of the {key.registry.kind}:\n\n{_table(key.extra)}"


def _table(keys):
    rows = [f"| `{name}` | {_kind(key)} | {_default(key)} | {key.doc} |" for name, key in keys.items()]
    return "\n".join(["| key | value | default | meaning |", "|---|---|---|---|", *rows])


def _kind(key):
    if isinstance(key, Section):
        return "section"
    if isinstance(key, Component):
        return f"list of {key.registry.kind}s" if key.many else f"{key.registry.kind}"
    return describe(key.hint) + (f" in {key.span}" if key.span else "")


def _default(key):
    if isinstance(key, Section):
        return "null" if key.optional else "its defaults"
    return "must be given" if key.default is REQUIRED else f"`{show(key.default).strip(chr(39))}`"


def reports(text: str, folder: Path) -> tuple[str, str]:
    """What the example and the overrides of the page really print."""
    example = re.search(r"<!-- example -->\n```yaml\n(.*?)```", text, re.DOTALL)[1]
    (folder / "my_cait.yaml").write_text(example)
    overrides = re.findall(r"-o (\S+)", re.search(r"here `(-o [^`]*)`", text)[1])
    printed = []
    for path, changes in (("my_cait.yaml", []), ("configs/cait/cait_s24_224.yaml", overrides)):
        with pytest.raises(ConfigError) as caught:
            check_config(get_config(path, changes))
        printed.append(str(caught.value))
    return printed[0], printed[1]


def updated(text: str, folder: Path) -> str:
    """The page with its generated parts made anew."""
    report, override_report = reports(text, folder)
    for mark, content in (("report", report), ("override report", override_report)):
        text = re.sub(rf"(<!-- {mark} -->\n```\n).*?```", lambda m, c=content: f"{m[1]}{c}\n```", text, flags=re.DOTALL)
    return text[: text.index("<!-- reference -->")] + f"<!-- reference -->\n\n{reference()}\n"


def test_the_page_shows_what_the_code_does(tmp_path, monkeypatch):
    text = DOC.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert text == updated(text, tmp_path)


def test_every_key_has_a_meaning_and_a_type():
    def visit(keys):
        for name, key in keys.items():
            assert key.doc, name
            if isinstance(key, Section):
                visit(key.keys)
            elif isinstance(key, Key):
                assert "any value" not in describe(key.hint), name
                assert not key.span or re.fullmatch(r"[\[(]-?[\w.]+, [\w.]+[\])]", key.span), name

    visit(EXPERIMENT.keys)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        page = DOC.read_text(encoding="utf-8")
        os.chdir(folder)
        DOC.write_text(updated(page, Path(folder)), encoding="utf-8")
