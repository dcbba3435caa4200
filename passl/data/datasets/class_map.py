# SPDX-License-Identifier: Apache-2.0
"""The names of the classes and their order: one map, fixed by the training split, for all splits."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from passl.utils.errors import DataError


def class_folders(root: str) -> list[str]:
    """Names of the sub-folders of ``root`` in sorted order, hidden ones left out."""
    return sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))


def read_classes(source: str | Sequence[str]) -> list[str]:
    """Class names in label order.

    Args:
        source: the names themselves; or a text file with one name on each line; or a JSON file with a
            list of names, ``{"0": name}`` or ``{"0": [folder, name]}``; or a folder with one sub-folder
            for each class, such as the root of the training split.
    """
    if not isinstance(source, str):
        names = [str(name) for name in source]
    elif os.path.isdir(source):
        names = class_folders(source)
    elif source.endswith(".json"):
        names = _read_json(source)
    else:
        names = [line.strip() for line in _read_text(source).splitlines() if line.strip()]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if not names or twice:
        what = f"names {', '.join(twice)} more than once" if twice else "names no class"
        raise DataError(f"the class list {source if isinstance(source, str) else ''} {what}")
    return names


def _read_json(path: str) -> list[str]:
    try:
        content = json.loads(_read_text(path))
        if isinstance(content, dict):
            content = [content[str(label)] for label in range(len(content))]
        return [entry if isinstance(entry, str) else entry[0] for entry in content]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(
            f'the class list {path} is neither a JSON list of names nor {{"0": name, "1": name, ...}} ({error!r})'
        ) from error


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read the class list {path} ({error}); expected a list of names, a text file with one name "
            f"per line, a JSON file, or the folder of the training split"
        ) from error
