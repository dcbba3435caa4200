# SPDX-License-Identifier: Apache-2.0
"""Squeeze-and-excitation against its formula."""

import paddle
import paddle.nn.functional as F
import pytest

from passl.modeling.layers import SqueezeExcitation


@pytest.mark.parametrize(("act", "names"), [(F.relu, ("fc1", "fc2")), (F.silu, ("conv_reduce", "conv_expand"))])
def test_channels_are_scaled_by_what_all_of_them_say(act, names):
    layer, x = SqueezeExcitation(8, 2, act, names), paddle.randn([2, 8, 3, 3])
    first, second = (getattr(layer, name) for name in names)
    means = x.mean([2, 3])  # [B, C]
    hidden = act(paddle.matmul(means, first.weight[:, :, 0, 0], transpose_y=True) + first.bias)
    scale = F.sigmoid(paddle.matmul(hidden, second.weight[:, :, 0, 0], transpose_y=True) + second.bias)
    assert paddle.allclose(layer(x), x * scale.unsqueeze(-1).unsqueeze(-1), atol=1e-6)
    assert [name for name, _ in layer.named_children()] == list(names)
