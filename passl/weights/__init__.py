# SPDX-License-Identifier: Apache-2.0
"""Weight files: reading them without running code, moving them between libraries, saving them safely.

>>> from passl.weights import load_weights
>>> print(load_weights(model, "deit_small_patch16_224.pth"))
"""

from .card import Card, read_card, save_card
from .convert import to_layout
from .convert.files import convert_file, save_weights
from .known import known_card, known_cards
from .load import Report, load_weights
from .read import read_arrays
from .rewire import to_parallel, to_serial
from .save import write_safetensors_atomic

__all__ = [
    "Card",
    "Report",
    "convert_file",
    "known_card",
    "known_cards",
    "load_weights",
    "read_arrays",
    "read_card",
    "save_card",
    "save_weights",
    "to_layout",
    "to_parallel",
    "to_serial",
    "write_safetensors_atomic",
]
