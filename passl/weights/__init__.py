# SPDX-License-Identifier: Apache-2.0
"""Weight files: reading them without running code, moving them between libraries, saving them safely.

>>> from passl.weights import load_weights
>>> print(load_weights(model, "deit_small_patch16_224.pth"))
"""

from .convert import to_layout
from .load import Report, load_weights
from .read import read_arrays
from .save import write_safetensors_atomic

__all__ = ["Report", "load_weights", "read_arrays", "to_layout", "write_safetensors_atomic"]
