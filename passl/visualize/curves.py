# SPDX-License-Identifier: Apache-2.0
"""Curves of a training: loss, accuracy and learning rate over the steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .style import LINES, figure

Curve = list[tuple[float, float]]


def draw_curves(records: Iterable[Mapping], path: str | os.PathLike[str]) -> Path:
    """Draw the figures of ``metrics.jsonl``: one panel each for losses, accuracies, learning rate and the rest.

    Args:
        records: its lines, each with ``kind`` ("train" or "eval"), ``step`` and named figures.
        path: of the PNG.
    Returns:
        the path.
    """
    panels = {title: curves for title, curves in _panels(records).items() if curves}
    with figure(path, 9, 1 + 2.6 * max(1, len(panels))) as canvas:
        axes = canvas.subplots(max(1, len(panels)), 1, sharex=True, squeeze=False)[:, 0]
        for axis, (title, curves) in zip(axes, panels.items()):
            axis.set_title(title)
            for number, (name, points) in enumerate(curves.items()):
                _draw(axis, name, points, LINES[number % len(LINES)])
            if len(curves) > 1 or title not in curves:
                axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        axes[-1].set_xlabel("step")
    return Path(path)


def _panels(records: Iterable[Mapping]) -> dict[str, dict[str, Curve]]:
    """Curves by panel and name; an evaluation's loss is called ``val loss``."""
    panels: dict[str, dict[str, Curve]] = {"loss": {}, "accuracy, %": {}, "learning rate": {}, "other": {}}
    for record in records:
        for name, value in record.items():
            if name in ("step", "epoch") or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            title = _panel(name)
            label = f"val {name}" if record["kind"] == "eval" and title == "loss" else name
            panels[title].setdefault(label, []).append((record["step"], value))
    return panels


def _panel(name: str) -> str:
    if "loss" in name:
        return "loss"
    if "top" in name or name.startswith("retrieval"):
        return "accuracy, %"
    return "learning rate" if name == "lr" else "other"


def _draw(axis, name: str, points: Curve, color: str) -> None:
    """One curve, its points marked when there are few, its last value in the legend."""
    steps, values = zip(*points)
    marker = "o" if len(points) <= 30 else None
    axis.plot(
        steps, values, color=color, marker=marker, markersize=3.5, linewidth=1.6, label=f"{name}  {values[-1]:.4g}"
    )


def schedule_curve(
    schedule: Callable[[int], float], total_steps: int, path: str | os.PathLike[str], title: str = "learning rate"
) -> Path:
    """Draw what a schedule (step -> value) gives over a whole training, before it is started.

    Args:
        schedule: asked for at most 2,000 steps from 0 to ``total_steps - 1``.
        total_steps: of the training, at least 1.
        path: of the PNG.
        title: what the value is.
    """
    stride = max(1, total_steps // 2000)
    steps = sorted({*range(0, total_steps, stride), total_steps - 1})
    values = [float(schedule(step)) for step in steps]
    top = max(range(len(values)), key=values.__getitem__)
    with figure(path, 8, 3.2) as canvas:
        axis = canvas.subplots()
        axis.plot(steps, values, color=LINES[0], linewidth=2)
        for place, text in {0: "start", top: "peak", len(steps) - 1: "end"}.items():
            axis.plot(steps[place], values[place], "o", color=LINES[1], markersize=5)
            axis.annotate(
                f"{text} {values[place]:.3g}", (steps[place], values[place]), xytext=(6, 6), textcoords="offset points"
            )
        axis.margins(x=0.09, y=0.16)
        axis.set_title(title)
        axis.set_xlabel("step")
    return Path(path)
