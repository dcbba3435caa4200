# SPDX-License-Identifier: Apache-2.0
"""A pickle machine that cannot run code: it builds containers and arrays, and calls nothing but its own table.

Python's unpickler imports and calls whatever the file names.  This one walks the opcodes (as
``pickletools`` decodes them) and knows three kinds of global names: those in a table of our own
functions, those that become an inert :class:`Opaque`, and all others, which are refused by name.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from passl.utils.errors import CheckpointError

from .pickle_table import CALLS, OPAQUE, PASSIVE, Global, Opaque, PickledArray, PickledDtype

_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_MODEL = re.compile(r"torch\.nn\.modules\..+|paddle\.nn\..+")
_PUSH = re.compile(r"(BIN)?(INT[12]?|LONG[14]?|FLOAT)|(SHORT_)?BIN(STRING|BYTES|UNICODE)8?|STRING|UNICODE")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_MARK = object()


class RestrictedUnpickler:
    """Reads one pickle after another from a stream.

    Args:
        path: of the file, for messages.
        calls: further functions by ``module.name`` (lower-level readers add theirs).
        passive: names that are data, such as element types; they stay :class:`Global`.
        persistent: turns a persistent id into a value (PyTorch's storages).
        ignore: globals the caller knows to be harmless; they become :class:`Opaque` instead of an error.
    """

    def __init__(
        self,
        path: str | Path,
        calls: Mapping[str, Callable[..., Any]] | None = None,
        passive: Callable[[str], bool] = lambda name: False,
        persistent: Callable[[Any], Any] | None = None,
        ignore: Collection[str] = (),
    ):
        self.path, self.passive, self.persistent, self.ignore = path, passive, persistent, ignore
        self.calls = {**CALLS, **(calls or {})}
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []

    def load(self, stream: BinaryIO) -> Any:
        """The value of the pickle that starts at the stream's position.

        Raises:
            CheckpointError: the pickle is damaged or names something outside the table.
        """
        self.memo, self.stack = {}, []
        position = 0
        try:
            for opcode, argument, offset in pickletools.genops(stream):
                position = offset or 0
                self._execute(opcode.name, argument)
            return self.stack.pop()
        except CheckpointError as error:
            raise CheckpointError(f"{self.path}: {error}") from None
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, MemoryError) as error:
            raise CheckpointError(
                f"{self.path} is truncated or no valid pickle, near byte {position} ({error}); copy it again"
            ) from error

    def _execute(self, name: str, argument: Any) -> None:
        stack = self.stack
        if _PUSH.fullmatch(name):
            stack.append(argument)
        elif name == "BYTEARRAY8":
            stack.append(bytes(argument))
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name not in ("PROTO", "FRAME", "STOP"):
            method = getattr(self, f"_{name.lower()}", None)
            if method is None:
                raise ValueError(f"opcode {name} is not read")
            method(argument) if name in ("GLOBAL", "INST", "PERSID") else method()

    def resolve(self, module: str, name: str) -> Global:
        """The global called ``module.name``, if the table knows it.  Raises CheckpointError otherwise."""
        module = re.sub(r"^numpy\._core\b", "numpy.core", _RENAMED.get(module, module))
        known = Global(module, name)
        full = str(known)
        if full in self.calls or full in PASSIVE or self.passive(full) or self._is_opaque(full):
            return known
        if _MODEL.fullmatch(full):
            raise CheckpointError(
                f"the file holds a whole pickled model ({full}), which only its own code can rebuild; "
                "where it was made, save the tensors alone: torch.save(model.state_dict(), PATH)"
            )
        raise CheckpointError(
            f"refused to load '{full}'. A weight file may hold tensors, numbers, text and plain containers; this name "
            "would run code when unpickled. If you know where the file comes from, load it there and save only the "
            "tensors (safetensors, or torch.save(model.state_dict(), PATH)). If the object is only baggage beside the "
            f"weights, skip it: ignore_globals=['{full}'], or --ignore-global {full} on the command line"
        )

    def _is_opaque(self, full: str) -> bool:
        return full in self.ignore or OPAQUE.fullmatch(full) is not None

    def call(self, function: Any, arguments: Any) -> Any:
        """What ``function(*arguments)`` stands for; ``function`` must come from the table."""
        if not isinstance(function, Global):
            raise ValueError(f"a {type(function).__name__} cannot be called")
        if str(function) in self.calls:
            return self.calls[str(function)](*arguments)
        if self._is_opaque(str(function)):
            return Opaque(function)
        raise ValueError(f"{function} cannot be called")

    def _global(self, argument):
        self.stack.append(self.resolve(*argument.split(" ", 1)))

    def _stack_global(self):
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(self.resolve(module, name))

    def _reduce(self):
        arguments, function = self.stack.pop(), self.stack.pop()
        self.stack.append(self.call(function, arguments))

    _newobj = _reduce

    def _newobj_ex(self):
        self.stack.pop()
        self._reduce()

    def _inst(self, argument):
        self.stack.append(self.call(self.resolve(*argument.split(" ", 1)), self._pop_mark()))

    def _obj(self):
        function, *arguments = self._pop_mark()
        self.stack.append(self.call(function, arguments))

    def _build(self):
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, PickledArray):
            target.set(*state[1:])
        elif isinstance(target, PickledDtype):
            target.set(state[1])
        elif isinstance(target, Opaque):
            target.state = state if target.kind.module.startswith("__torch__") else None
        elif not isinstance(target, dict):  # attributes of an OrderedDict, such as PyTorch's _metadata
            raise ValueError(f"a {type(target).__name__} has no state")

    def _binpersid(self):
        self._persid(self.stack.pop())

    def _persid(self, argument):
        if self.persistent is None:
            raise ValueError("a persistent id outside a PyTorch file")
        self.stack.append(self.persistent(argument))

    def _mark(self):
        self.stack.append(_MARK)

    def _pop_mark(self) -> list[Any]:
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _pop(self):
        self.stack.pop()

    def _dup(self):
        self.stack.append(self.stack[-1])

    def _tuple(self):
        self.stack.append(tuple(self._pop_mark()))

    def _tuple1(self):
        self.stack[-1:] = [tuple(self.stack[-1:])]

    def _tuple2(self):
        self.stack[-2:] = [tuple(self.stack[-2:])]

    def _tuple3(self):
        self.stack[-3:] = [tuple(self.stack[-3:])]

    def _empty_list(self):
        self.stack.append([])

    _empty_set = _empty_list

    def _list(self):
        self.stack.append(self._pop_mark())

    _frozenset = _list

    def _append(self):
        item = self.stack.pop()
        self._extend([item])

    def _appends(self):
        self._extend(self._pop_mark())

    _additems = _appends

    def _extend(self, items):
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(items)
        elif not isinstance(self.stack[-1], Opaque):
            raise ValueError(f"a {type(self.stack[-1]).__name__} has no items")

    def _empty_dict(self):
        self.stack.append({})

    def _dict(self):
        items = self._pop_mark()
        self.stack.append(dict(zip(items[::2], items[1::2])))

    def _setitem(self):
        value, key = self.stack.pop(), self.stack.pop()
        self._update([key, value])

    def _setitems(self):
        self._update(self._pop_mark())

    def _update(self, items):
        if isinstance(self.stack[-1], dict):
            self.stack[-1].update(zip(items[::2], items[1::2]))
        elif not isinstance(self.stack[-1], Opaque):
            raise ValueError(f"a {type(self.stack[-1]).__name__} has no keys")
