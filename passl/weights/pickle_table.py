# SPDX-License-Identifier: Apache-2.0
"""What a pickle inside a weight file may mention, and what we make of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from passl.utils.errors import CheckpointError


@dataclass(frozen=True)
class Global:
    """A ``module.name`` that the file mentions; never imported."""

    module: str
    name: str

    def __str__(self):
        return f"{self.module}.{self.name}"


class Opaque:
    """Stands for an object that is skipped.  It is not constructed; only TorchScript modules keep their state."""

    def __init__(self, kind: Global):
        self.kind = kind
        self.state: Any = None


class PickledArray:
    """A NumPy array as pickled: raw bytes, shape and type, checked before use."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self.dtype: np.dtype | None = None  # None: text, objects or records, which are not weights
        self._raw, self._fortran = b"", False

    def set(self, shape, dtype: PickledDtype, fortran: bool, raw) -> PickledArray:
        self.shape, self.dtype, self._fortran = tuple(shape), dtype.value, bool(fortran)
        if self.dtype is not None:
            self._raw = raw.encode("latin-1") if isinstance(raw, str) else raw
            if not isinstance(self._raw, bytes) or len(self._raw) != math.prod(self.shape) * self.dtype.itemsize:
                raise ValueError(f"an array of shape {self.shape} and type {self.dtype} has not that many bytes")
        return self

    def array(self) -> np.ndarray:
        """The values, as a read-only view of the pickled bytes."""
        return np.frombuffer(self._raw, self.dtype).reshape(self.shape, order="F" if self._fortran else "C")


class PickledDtype:
    """A NumPy element type as pickled; ``value`` is None for anything but numbers and booleans."""

    def __init__(self, code, *_):
        self.value = np.dtype(code) if re.fullmatch(r"[<>|=]?[biufc]\d{1,2}", str(code)) else None

    def set(self, order: str) -> None:
        if self.value is not None and order in ("<", ">"):
            self.value = np.dtype(order + self.value.str[1:])


def _latin1(text, encoding="latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"_codecs.encode with {encoding!r}")
    return text.encode("latin-1")


def _paddle_eval(expression="", values=None, *_) -> Any:
    """Paddle saves a tensor of a static graph as ``eval("data", {"data": array})``; nothing is evaluated here."""
    if expression != "data" or not isinstance(values, dict) or not isinstance(values.get("data"), PickledArray):
        raise CheckpointError(f"refused builtins.eval({str(expression)[:80]!r}): this file tries to run code")
    return values["data"]


def _scalar(dtype: PickledDtype, raw) -> Any:
    return PickledArray().set((), dtype, False, raw).array()[()] if dtype.value is not None else raw


# Functions and classes by the name a pickle gives them; ours run instead of theirs.
CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": lambda items=(): dict(items),
    "collections.defaultdict": lambda factory=None, items=(): dict(items),
    "collections.Counter": lambda items=(): dict(items),
    "builtins.dict": lambda items=(): dict(items),
    "builtins.list": lambda items=(): list(items),
    "builtins.tuple": lambda items=(): tuple(items),
    "builtins.set": lambda items=(): list(items),
    "builtins.frozenset": lambda items=(): list(items),
    "builtins.bytearray": lambda data=b"", *_: bytes(data) if isinstance(data, bytes) else b"",
    "builtins.complex": lambda real=0.0, imag=0.0: complex(real, imag),
    "builtins.eval": _paddle_eval,
    "_codecs.encode": _latin1,
    "numpy.dtype": PickledDtype,
    "numpy.core.multiarray._reconstruct": lambda *_: PickledArray(),
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": lambda raw, dtype, shape, order: PickledArray().set(
        shape, dtype, order == "F", raw
    ),
}

# Names that are only arguments, never called.
PASSIVE = {"numpy.ndarray", "builtins.object", "builtins.int", "builtins.float", "builtins.str", "builtins.bool"}

# Settings, optimisers and the like, which often lie beside weights.  They are skipped, not rebuilt.
OPAQUE = re.compile(
    r"argparse\.Namespace|types\.SimpleNamespace|functools\.partial|typing\.Any|enum\.\w+|uuid\.UUID|copyreg\._reconstructor"
    r"|(pathlib|pathlib\._local|datetime)\.\w+"
    r"|(omegaconf|yacs|easydict|ml_collections|addict|numpy\.random|torch\.optim|paddle\.optimizer|pytorch_lightning"
    r"|lightning|lightning_fabric|mmcv|mmengine|fvcore|iopath|detectron2|timm|torchvision|__torch__|torch\.jit)\..+"
)
