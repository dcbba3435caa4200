# SPDX-License-Identifier: Apache-2.0
"""The import rule of docs/architecture.md, read off the source."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "passl"

# What each part of the package may import from passl, besides itself.
ALLOWED = {
    "utils": set(),
    "modeling": {"utils"},
    "losses": {"utils"},
    "methods": {"utils", "modeling", "losses"},
    "data": {"utils"},
    "optim": {"utils"},
    "weights": {"utils", "modeling"},
    "visualize": {"utils"},
    "engine": {
        *("utils", "modeling", "losses", "methods", "data", "optim", "weights", "visualize"),
        *("runtime", "catalogue"),
    },
}


def imported_parts(path):
    """First components below ``passl`` of what a file imports, relative imports resolved."""
    here = ("passl", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names), f"{path}: star import"
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "passl" else [module]
        else:
            continue
        for name in names:
            if name.startswith("passl."):
                yield name.split(".")[1]


@pytest.mark.parametrize("part", ALLOWED)
def test_each_part_imports_only_what_lies_below_it(part):
    wrong = [
        f"{path.relative_to(PACKAGE)} imports passl.{other}"
        for path in sorted((PACKAGE / part).rglob("*.py"))
        for other in imported_parts(path)
        if other != part and other not in ALLOWED[part]
    ]
    assert wrong == []


def test_every_part_of_the_package_is_in_the_rule():
    parts = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert parts == set(ALLOWED)


def test_every_file_names_its_licence():
    repository = PACKAGE.parent
    files = [p for folder in ("passl", "tools", "tests", "benchmarks") for p in (repository / folder).rglob("*.py")]
    assert [str(p) for p in files if not p.read_text().startswith("# SPDX-License-Identifier: Apache-2.0")] == []
