# SPDX-License-Identifier: Apache-2.0
"""LayerScale, LayerNorm for maps, and BatchNorm over all processes."""

from __future__ import annotations

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.utils.distributed import all_reduce_with_gradient, world_size


class LayerScale(nn.Layer):
    """Multiplies each channel by a learned factor that starts small.

    Paper: Going Deeper with Image Transformers, ICCV 2021, https://arxiv.org/abs/2103.17239, eq. 4

    Args:
        dim: number of channels (last axis).
        init_value: initial factor.
    """

    def __init__(self, dim: int, init_value: float = 1e-5):
        super().__init__()
        self.gamma = self.create_parameter([dim], default_initializer=nn.initializer.Constant(init_value))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return x * self.gamma


class LayerNorm2d(nn.LayerNorm):
    """LayerNorm over the channels of a map, at each place by itself.

    Two transpositions around the fused norm: means taken over axis 1 are several times slower on a CPU.

    Args:
        dim: number of channels C.
        epsilon: added to the variance.
    Shape: [B, C, h, w], unchanged.
    """

    def __init__(self, dim: int, epsilon: float = 1e-6):
        super().__init__(dim, epsilon=epsilon)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x.transpose([0, 2, 3, 1])  # [B, h, w, C]
        x = F.layer_norm(x, self._normalized_shape, self.weight, self.bias, self._epsilon)
        return x.transpose([0, 3, 1, 2])


class SyncBatchNorm(nn.Layer):
    """BatchNorm whose batch statistics cover all processes, on any device.

    Paddle's own has no CPU kernel.  The parameters and buffers have BatchNorm's names.

    Args:
        norm: the BatchNorm layer to take the parameters and settings from.
    Shape: [B, C] or [B, C, ...], unchanged.
    """

    def __init__(self, norm):
        super().__init__()
        self._momentum, self._epsilon = norm._momentum, norm._epsilon
        self.weight, self.bias = norm.weight, norm.bias
        self._mean, self._variance = norm._mean, norm._variance  # frozen parameters, as in Paddle's BatchNorm

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        shape = [1, -1] + [1] * (x.ndim - 2)
        half = x.dtype in (paddle.float16, paddle.bfloat16)
        wide = x.astype("float32") if half else x  # statistics need more digits than half precision has
        if self.training:
            axes = [0, *range(2, x.ndim)]
            count = paddle.full([1], float(x.size // x.shape[1]), wide.dtype)
            total = all_reduce_with_gradient(paddle.concat([wide.sum(axes), count]))
            mean, count = total[:-1], total[-1]
            mean = mean / count
            centred = wide - mean.reshape(shape)
            variance = all_reduce_with_gradient(centred.square().sum(axes)) / count
            self._move_running_statistics(mean, variance)
        else:
            centred, variance = wide - self._mean.reshape(shape), self._variance
        scale = paddle.rsqrt(variance + self._epsilon)
        if self.weight is not None:
            scale = scale * self.weight
        y = centred * scale.reshape(shape)
        if self.bias is not None:
            y = y + self.bias.reshape(shape)
        return y.astype(x.dtype)

    @paddle.no_grad()
    def _move_running_statistics(self, mean: paddle.Tensor, variance: paddle.Tensor) -> None:
        for running, batch in ((self._mean, mean), (self._variance, variance)):  # biased variance, as in Paddle
            running.set_value(self._momentum * running + (1 - self._momentum) * batch.astype(running.dtype))


def convert_sync_batchnorm(model: nn.Layer) -> nn.Layer:
    """Replace every BatchNorm in ``model`` by one that is synchronised over processes; returns the model.

    On a GPU it is Paddle's fused layer, elsewhere :class:`SyncBatchNorm`.
    """
    if world_size() == 1:
        return model
    if paddle.device.get_device().startswith("gpu"):
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for name, child in model.named_children():
        if isinstance(child, nn.layer.norm._BatchNormBase):
            setattr(model, name, SyncBatchNorm(child))
        else:
            convert_sync_batchnorm(child)
    return model


def token_and_mean_norm(dim: int, epsilon: float, norm_mean: bool) -> tuple[nn.Layer, nn.Layer]:
    """The norm of all tokens and the norm of their mean, one of which is the identity."""
    norm = nn.LayerNorm(dim, epsilon=epsilon)
    return (nn.Identity(), norm) if norm_mean else (norm, nn.Identity())
