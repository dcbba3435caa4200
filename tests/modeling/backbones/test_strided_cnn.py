# SPDX-License-Identifier: Apache-2.0
import numpy as np
import paddle
import pytest

from passl.modeling.backbones import build_backbone


def model(**arguments):
    paddle.seed(0)
    return build_backbone({"name": "StridedCNN", "img_size": 28, "widths": [4, 8, 16], **arguments})


def images(count=8, side=28):
    return paddle.to_tensor(np.random.default_rng(0).standard_normal([count, 3, side, side]).astype("float32"))


def test_each_convolution_halves_the_map_and_the_last_one_is_read_whole():
    cnn = model()
    shapes = [list(m.shape) for m in cnn.forward_intermediates(images(), [0, 1, 2])]
    assert shapes == [[8, 4, 14, 14], [8, 8, 7, 7], [8, 16, 4, 4]]
    assert cnn.num_features == 16 * 4 * 4
    assert list(cnn(images()).shape) == [8, cnn.num_features]


def test_a_feature_knows_where_something_is():
    cnn = model()
    cnn.eval()
    x = images(1)
    moved = paddle.roll(x, 8, axis=3)
    assert float((cnn(x) - cnn(moved)).abs().max()) > 0.1


def test_every_feature_is_centred_with_unit_spread_over_a_batch():
    features = model()(images(64)).numpy()
    np.testing.assert_allclose(features.mean(0), 0, atol=1e-5)
    used = features.std(0) > 0  # a place that ReLU keeps at zero has no spread
    np.testing.assert_allclose(features.std(0)[used], 1, atol=0.02)


def test_a_net_without_convolutions_is_refused():
    with pytest.raises(ValueError, match="at least one convolution"):
        model(widths=[])
