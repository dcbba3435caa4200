# SPDX-License-Identifier: Apache-2.0
"""Whether features still tell images apart: spread, rank, and a plain word when they do not."""

from __future__ import annotations

import numpy as np

MAX_ROWS = 25_600  # images that rankme looks at, as in its paper


def feature_health(features: np.ndarray) -> dict[str, float]:
    """Spread and rank of features [N, D]; a collapsed model gives every image the same feature.

    Paper: Exploring Simple Siamese Representation Learning, CVPR 2021, https://arxiv.org/abs/2011.10566,
    section 4.1, for ``feature_std``: the standard deviation of each dimension of the normalised
    features, averaged, times sqrt(D): 1 when they point everywhere equally, 0 when all are the same.
    Paper: RankMe, ICML 2023, https://arxiv.org/abs/2210.02885, eq. 1-2, for ``rankme``: exp of the
    entropy of the singular values, from 1 to min(N, D), of ``MAX_ROWS`` images at most.
    """
    norms = np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    spread = (features / norms).std(axis=0, ddof=1, dtype=np.float64).mean() * features.shape[1] ** 0.5
    some = features[:: -(-len(features) // MAX_ROWS)].astype(np.float64)
    gram = some.T @ some if some.shape[0] >= some.shape[1] else some @ some.T
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0))
    share = singular / max(singular.sum(), 1e-12) + 1e-7
    return {"feature_std": float(spread), "rankme": float(np.exp(-(share * np.log(share)).sum()))}


def collapse_advice(figures: dict[str, float]) -> str | None:
    """A sentence for people when the features say almost nothing about the image, else None."""
    if figures["feature_std"] >= 0.1 and figures["rankme"] >= 2:
        return None
    return (
        "the features have collapsed, all images get almost the same one: "
        f"feature_std {figures['feature_std']:.3f} (at least 0.1 expected, 1 at best), rankme {figures['rankme']:.1f}. "
        "Usual remedies: a lower learning rate or a longer warm-up, a larger batch, and a look at the method's own "
        "guard (stop-gradient, centring, variance term, temperature)"
    )
