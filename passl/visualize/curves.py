# SPDX-License-Identifier: Apache-2.0
"""Curves of a training: loss, accuracy and learning rate over the steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .style import LINES, figure

Curve = list[tuple[float, float]]


def draw_curves(records: Iterable[Mapping], path: str | os.PathLike[str]) -> Path:
    """Draw the figures of ``metrics.jsonl``: losses in one panel, accuracies in one, each other figure in its own.

    Args:
        records: its lines, each with ``kind`` ("train" or "eval"), ``step`` and named figures.
        path: of the PNG.
    Returns:
        the path.
    """
    panels = _panels(records)
    num_rows = max(1, -(-len(panels) // 2))
    with figure(path, 13, 0.4 + 3 * num_rows) as canvas:
        axes = canvas.subplots(num_rows, 2, sharex=True, squeeze=False).ravel()
        for axis, (title, curves) in zip(axes, panels.items()):
            for number, (name, points) in enumerate(curves.items()):
                _draw(axis, name, points, LINES[number % len(LINES)])
            axis.set(title=title, xlabel="step")
            if len(curves) > 1:
                axis.legend(frameon=True, framealpha=0.85, edgecolor="none")
            else:
                axis.set_title(f"{title}  {points[-1][1]:.4g}")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
    return Path(path)


def _panels(records: Iterable[Mapping]) -> dict[str, dict[str, Curve]]:
    """Curves by panel and name, losses and accuracies first; an evaluation's loss is called ``val loss``."""
    panels: dict[str, dict[str, Curve]] = {"loss": {}, "accuracy, %": {}}
    for record in records:
        for name, value in record.items():
            if name in ("step", "epoch") or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            title = _panel(name)
            label = f"val {name}" if record["kind"] == "eval" and title == "loss" else name
            panels.setdefault(title, {}).setdefault(label, []).append((record["step"], value))
    return {title: curves for title, curves in panels.items() if curves}


def _panel(name: str) -> str:
    """Title of the panel for a figure."""
    if "loss" in name:
        return "loss"
    if "top" in name or name.startswith("retrieval"):
        return "accuracy, %"
    return "learning rate" if name == "lr" else name


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
            side = {"ha": "right", "xytext": (0, 12)} if place == len(steps) - 1 else {"ha": "left", "xytext": (6, 7)}
            point = (steps[place], values[place])
            axis.annotate(f"{text} {values[place]:.3g}", point, textcoords="offset points", **side)
        axis.margins(x=0.03, y=0.16)
        axis.set_title(title)
        axis.set_xlabel("step")
    return Path(path)
