# SPDX-License-Identifier: Apache-2.0
"""Outputs of a frozen model for a whole data set: every image exactly once, in dataset order, on every process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import paddle
from paddle import nn

from passl.utils import distributed
from passl.utils.errors import DataError
from passl.utils.log import logger

CHUNK_ROWS = 4096  # rows each process sends at a time: bounds the memory of a gather


@contextmanager
def frozen(method: nn.Layer) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards each layer is back in the mode it was in."""
    modes = [(layer, layer.training) for layer in method.sublayers(include_self=True)]
    method.eval()
    try:
        with paddle.no_grad():
            yield
    finally:
        for layer, training in modes:
            layer.training = training


def ready_batches(loader) -> Iterator[dict]:
    """The loader's batches as tensors, with its batch transforms applied: what a method takes."""
    for batch in loader:
        batch = {k: paddle.to_tensor(v) if isinstance(v, np.ndarray) else v for k, v in batch.items()}
        for transform in loader.batch_transforms:
            batch = transform(batch)
        yield batch


def per_image(
    method: nn.Layer, loader, outputs: Callable[[dict], Sequence[paddle.Tensor | np.ndarray]]
) -> list[np.ndarray]:
    """Run ``outputs`` on every batch of a frozen method and put the rows in dataset order.

    Processes may have different numbers of batches: they talk only after the last one.

    Args:
        method: put into evaluation mode for the time of the call.
        loader: every index of ``loader.dataset`` appears once over all processes.
        outputs: batch -> one array [B, ...] for each column of the result.
    Returns:
        one array [N, ...] for each column, the same on every process.  Images that the loader was told
        to skip when unreadable have no row.
    Raises:
        DataError: fewer images than processes, or an image is missing or came twice.
    """
    total = len(loader.dataset)
    if total < distributed.world_size():
        raise DataError(f"{distributed.world_size()} processes cannot share {total} images: use fewer processes")
    indices: list[np.ndarray] = []
    columns: list[list[np.ndarray]] = []
    with frozen(method):
        for batch in ready_batches(loader):
            indices.append(np.asarray(batch["index"]))
            columns.append([np.asarray(column) for column in outputs(batch)])
    skipped = sorted({i for part in distributed.all_gather_object([f.index for f in loader.bad_files]) for i in part})
    if skipped and distributed.is_main():
        logger.warning(f"{len(skipped)} of {total} images could not be read and are left out of the evaluation")
    index = np.concatenate(indices)
    return [in_dataset_order(index, np.concatenate(rows), total, skipped) for rows in zip(*columns)]


def in_dataset_order(index: np.ndarray, rows: np.ndarray, total: int, skipped: Sequence[int] = ()) -> np.ndarray:
    """Gather every process's ``rows`` and sort them by ``index``.

    Args:
        index: [n], the position in the data set of each row; n may differ between processes.
        rows: [n, ...], same dtype and trailing shape on every process.
        total: size of the data set.
        skipped: indices that are known to be missing.
    Returns:
        [total - len(skipped), ...] on every process.
    Raises:
        DataError: another index from 0 to total - 1 is missing, or one came twice.
    """
    longest = int(distributed.all_gather(paddle.to_tensor([len(index)])).max())
    ordered = np.zeros((total, *rows.shape[1:]), rows.dtype)
    times_seen = np.zeros(total, np.int64)
    for begin in range(0, longest, CHUNK_ROWS):
        size = min(CHUNK_ROWS, longest - begin)
        some_index = _gather_padded(index[begin : begin + size], size, fill=-1)
        some_rows = _gather_padded(rows[begin : begin + size], size, fill=0)
        real = some_index >= 0
        np.add.at(times_seen, some_index[real], 1)
        ordered[some_index[real]] = some_rows[real]
    expected = np.ones(total, np.int64)
    expected[list(skipped)] = 0
    wrong = np.flatnonzero(times_seen != expected)
    if len(wrong):
        raise DataError(
            f"every image must be evaluated exactly once, but {len(wrong)} of {total} were not: "
            + ", ".join(f"image {i} came {times_seen[i]} times" for i in wrong[:5])
            + ("; ..." if len(wrong) > 5 else "")
            + ". A sampler that pads or drops the last batch does this"
        )
    return ordered[expected == 1]


def _gather_padded(rows: np.ndarray, size: int, fill: int) -> np.ndarray:
    """All processes' rows, each padded to ``size``, in rank order."""
    padded = np.full((size, *rows.shape[1:]), fill, rows.dtype)
    padded[: len(rows)] = rows
    return distributed.all_gather(paddle.to_tensor(padded)).numpy()


def extract_features(method, loader) -> tuple[np.ndarray, np.ndarray | None]:
    """A frozen method's features of a whole data set.

    Args:
        method: has ``features(images) -> [B, D]``.
        loader: an evaluation loader; see ``per_image``.
    Returns:
        float32 features [N, D], and int64 labels [N] or None where the data set has none; both in
        dataset order and the same on every process.
    Raises:
        DataError: see ``per_image``.
    """

    def outputs(batch):
        features = method.features(batch["image"]).astype("float32")  # [B, D]
        return [features] + ([batch["label"].astype("int64")] if "label" in batch else [])

    features, *labels = per_image(method, loader, outputs)
    if features.ndim != 2:
        shape = ", ".join(map(str, features.shape[1:]))
        raise ValueError(f"features(images) must be [B, D], but {type(method).__name__} gives [B, {shape}]")
    return features, labels[0] if labels else None
