# SPDX-License-Identifier: Apache-2.0
"""Packaging.  The YAMLs of ``configs/`` travel inside the wheel as the package data of ``passl.configs``."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent


def requirements() -> list:
    lines = (line.split("#")[0].strip() for line in (HERE / "requirements.txt").read_text().splitlines())
    return [line for line in lines if line]


def configs() -> list:
    return [str(path.relative_to(HERE / "configs")) for path in sorted((HERE / "configs").rglob("*.yaml"))]


setup(
    version=re.search(r'__version__ = "(.+)"', (HERE / "passl" / "__init__.py").read_text())[1],
    packages=[*find_packages(include=["passl", "passl.*"]), "passl.configs"],
    package_dir={"passl.configs": "configs"},
    package_data={"passl.configs": configs(), "passl.data.datasets": ["*.npz", "*.txt"], "passl.weights": ["*.tsv"]},
    install_requires=requirements(),
    extras_require={
        # An extra, not a requirement: a plain install must never put the CPU wheel over a GPU one.
        "cpu": ["paddlepaddle>=3.0"],
        "visualdl": ["visualdl>=2.5"],
        "test": [
            *("pytest>=7.4", "pytest-xdist>=3.5", "visualdl>=2.5"),
            *("ruff>=0.17,<0.18", "pylint>=3.2", "mypy>=1.8", "types-PyYAML"),
        ],
    },
)
