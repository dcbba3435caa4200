# SPDX-License-Identifier: Apache-2.0
"""The one place that knows about ranks.  Everything here also works in a single process."""

from __future__ import annotations

import os
from typing import Any

import paddle
import paddle.distributed as dist
from paddle.autograd import PyLayer


def world_size() -> int:
    """Number of processes that train together."""
    return int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))


def rank() -> int:
    """This process's number, from 0."""
    return int(os.environ.get("PADDLE_TRAINER_ID", "0"))


def local_size() -> int:
    """Number of processes on this machine."""
    return int(os.environ.get("PADDLE_LOCAL_SIZE", world_size()))


def is_main() -> bool:
    """True in the process that writes files and prints."""
    return rank() == 0


def start(on_cpu: bool = False) -> None:
    """Join the other processes, if there are any; safe to call twice.

    Args:
        on_cpu: compute on the CPU although this Paddle could use a GPU, which it would take otherwise.
    """
    if world_size() > 1 and not dist.is_initialized():
        if on_cpu:
            os.environ.setdefault("PADDLE_DISTRI_BACKEND", "gloo")
        dist.init_parallel_env()


def barrier() -> None:
    """Wait until every process has come here."""
    if world_size() > 1:
        dist.barrier()


def all_reduce(tensor: paddle.Tensor) -> paddle.Tensor:
    """Sum of ``tensor`` over the processes, as a new tensor without gradient."""
    total = tensor.detach().clone()
    if world_size() > 1:
        dist.all_reduce(total)
    return total


def broadcast(tensor: paddle.Tensor, source: int = 0) -> None:
    """Overwrite ``tensor`` in place with that of the process ``source``."""
    if world_size() > 1:
        dist.broadcast(tensor, src=source)


def all_gather(tensor: paddle.Tensor) -> paddle.Tensor:
    """Concatenate equally shaped tensors of all processes along axis 0, in rank order, without gradient."""
    if world_size() == 1:
        return tensor.detach()
    parts: list[paddle.Tensor] = []
    dist.all_gather(parts, tensor.detach())
    return paddle.concat(parts, axis=0)


def all_gather_object(value: Any) -> list[Any]:
    """Every process's ``value`` (picklable), in rank order."""
    if world_size() == 1:
        return [value]
    values: list[Any] = []
    dist.all_gather_object(values, value)
    return values


class _AllReduceWithGradient(PyLayer):
    @staticmethod
    def forward(ctx, tensor):
        return all_reduce(tensor)

    @staticmethod
    def backward(ctx, gradient):
        return all_reduce(gradient)


class _AllGatherWithGradient(PyLayer):
    @staticmethod
    def forward(ctx, tensor):
        ctx.rows = tensor.shape[0]
        return all_gather(tensor)

    @staticmethod
    def backward(ctx, gradient):
        begin = rank() * ctx.rows
        return all_reduce(gradient)[begin : begin + ctx.rows]


def all_reduce_with_gradient(tensor: paddle.Tensor) -> paddle.Tensor:
    """Sum over processes; the gradient is the sum of all processes' gradients."""
    return tensor if world_size() == 1 else _AllReduceWithGradient.apply(tensor)


def all_gather_with_gradient(tensor: paddle.Tensor) -> paddle.Tensor:
    """Rows of all processes, [world * B, ...]; each row gets the gradient of every process's loss.

    With data parallelism, which averages parameter gradients, the result equals that of one
    process holding the whole batch, provided each process returns the mean over its own rows.
    """
    return tensor if world_size() == 1 else _AllGatherWithGradient.apply(tensor)
