# SPDX-License-Identifier: Apache-2.0
"""Several views of one decoded image.  Both transforms come last in a data set's ``transforms``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from passl.utils.registry import TRANSFORMS

from .base import Transform, apply, check_pipeline


@TRANSFORMS.register()
class Views(Transform):
    """A list of views: ``count`` times the same ``transforms``, or one view for each list in ``views``.

    ::

        - {name: Views, count: 2, transforms: [{name: RandomResizedCrop, size: 224}, {name: RandomHorizontalFlip}]}
        - {name: Views, views: [[{name: RandomResizedCrop, size: 224}], [{name: CenterCrop, size: 224}]]}

    Args:
        transforms: what is done to each of ``count`` views.
        count: number of views; with ``transforms`` only.
        views: one list of transforms for each view.
    """

    gives_views = True

    def __init__(
        self,
        transforms: Sequence[Any] | None = None,
        count: int = 2,
        views: Sequence[Sequence[Any]] | None = None,
    ):
        if (transforms is None) == (views is None):
            raise ValueError("Views takes either 'transforms' with a 'count' or 'views', one list for each view")
        if views is None:
            views, counts = [transforms or []], [count]
        else:
            counts = [1] * len(views)
        self._pipelines = _repeat(views, counts)

    @property
    def count(self) -> int:
        """Number of views."""
        return len(self._pipelines)

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> list[Image.Image]:
        return [apply(pipeline, image, rng) for pipeline in self._pipelines]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._pipelines))})"


@TRANSFORMS.register()
class MultiCrop(Views):
    """Views of several kinds, such as two large crops and six small ones, in the order of ``views``.

    Paper: Unsupervised Learning of Visual Features by Contrasting Cluster Assignments (SwAV),
    NeurIPS 2020, https://arxiv.org/abs/2006.09882, section 3.3

    ::

        - name: MultiCrop
          counts: [2, 6]
          views:
            - [{name: RandomResizedCrop, size: 224, scale: [0.14, 1.0]}]
            - [{name: RandomResizedCrop, size: 96, scale: [0.05, 0.14]}]

    Args:
        views: one list of transforms for each kind of view.
        counts: how many views of each kind.
    """

    def __init__(self, views: Sequence[Sequence[Any]], counts: Sequence[int]):
        if len(views) != len(counts):
            raise ValueError(f"MultiCrop has {len(views)} views but {len(counts)} counts; give one count for each")
        self._pipelines = _repeat(views, counts)


def _repeat(views: Sequence[Sequence[Any]], counts: Sequence[int]) -> list[list[Any]]:
    """The pipelines of all views, each kind as often as its count says."""
    if any(count < 0 for count in counts) or sum(counts) < 1:
        raise ValueError(f"the numbers of views are {list(counts)}, expected at least one view")
    pipelines = []
    for place, (transforms, count) in enumerate(zip(views, counts)):
        if not isinstance(transforms, Sequence):
            raise ValueError(f"views[{place}] is {transforms!r}, expected a list of transforms")
        pipelines += [check_pipeline(transforms, inside=f"views[{place}].")] * count
    return pipelines
