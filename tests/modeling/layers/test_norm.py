# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle

from passl.modeling.layers import LayerScale


def test_layer_scale_multiplies_channels_and_starts_at_its_value():
    layer, x = LayerScale(3, 0.5), paddle.randn([2, 4, 3])
    assert paddle.allclose(layer(x), x * 0.5)
    layer.gamma.set_value(paddle.to_tensor([1.0, 2.0, 3.0]))
    assert paddle.allclose(layer(x), x * paddle.to_tensor([1.0, 2.0, 3.0]))
