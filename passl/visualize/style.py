# SPDX-License-Identifier: Apache-2.0
"""One look for all pictures: quiet axes, and colours that colour-blind people can tell apart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Okabe and Ito's palette (https://jfly.uni-koeln.de/color/) without black and with a darker yellow, for lines ...
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C6D00", "#555555")
# ... and Paul Tol's "muted" one (https://sronpersonalpages.nl/~pault/) with grey, for up to ten classes.
CLASSES = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#888888")
RIGHT, WRONG = "#009E73", "#D55E00"

_SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": "#444444",
    "xtick.color": "#666666",
    "ytick.color": "#666666",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
    "figure.facecolor": "white",
}


@contextmanager
def figure(path: str | os.PathLike[str], width: float, height: float) -> Iterator:
    """An empty figure of so many inches, written to ``path`` as a PNG when the block ends well."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        canvas = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(canvas)
        yield canvas
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=150)
