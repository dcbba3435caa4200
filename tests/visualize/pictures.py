# SPDX-License-Identifier: Apache-2.0
"""Reads back a picture."""

import numpy as np
from PIL import Image


def assert_drawn(path):
    """The PNG exists, is of a sensible size and shows something."""
    with Image.open(path) as picture:
        assert picture.format == "PNG" and min(picture.size) > 200
        assert np.asarray(picture.convert("L")).std() > 3
    return path
