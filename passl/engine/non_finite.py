# SPDX-License-Identifier: Apache-2.0
"""What is kept when a loss or a gradient stops being finite."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from passl.utils import distributed

from .run import Batch, Run


def dump(run: Run, batches: list[Batch], figures: dict[str, float]) -> str:
    """Write this process's batches, the figures and the worst gradients; returns the message for people."""
    folder = run.output_dir / f"non_finite_step_{run.step}"
    folder.mkdir(parents=True, exist_ok=True)
    indices = [int(i) for batch in batches for i in np.asarray(batch["index"])]
    norms = {
        name: float(p.grad.astype("float32").norm()) for name, p in run.method.named_parameters() if p.grad is not None
    }
    broken = [name for name, norm in norms.items() if not np.isfinite(norm)]
    report = {
        "step": run.step,
        "rank": distributed.rank(),
        "learning_rate": run.schedule(run.step),
        "figures": {name: repr(value) for name, value in figures.items()},
        "indices": indices,
        "parameters_with_non_finite_gradient": broken,
        "largest_finite_gradient_norms": sorted(
            ((n, v) for n, v in norms.items() if np.isfinite(v)), key=lambda item: -item[1]
        )[:10],
    }
    rank = distributed.rank()
    (folder / f"report_rank{rank}.json").write_text(json.dumps(report, indent=1))
    arrays: dict[str, Any] = {}
    for number, batch in enumerate(batches):
        for key, value in batch.items():
            for part, tensor in enumerate(value if isinstance(value, list) else [value]):
                arrays[f"{number}/{key}/{part}"] = np.asarray(tensor)
    np.savez_compressed(folder / f"batches_rank{rank}.npz", **arrays)
    shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
    what = "gradient" if np.isfinite(figures["loss"]) else "loss"
    return (
        f"the {what} is not finite at step {run.step} ({shown}; images {indices[:8]}…). The weights were not changed "
        f"by this step. Batches, indices and gradient norms are in {folder}. Try a lower learning_rate, a longer "
        "warm-up, optimizer.clip_norm, or amp.dtype: bfloat16 instead of float16, and go on with --resume auto"
    )
