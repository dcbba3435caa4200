# SPDX-License-Identifier: Apache-2.0
import numpy as np
import paddle
import pytest

from passl.data.batch_transforms import STATISTICS, Normalize


def images(batch=2, size=5):
    return np.random.default_rng(0).integers(0, 256, (batch, 3, size, size + 1), np.uint8)


@pytest.mark.parametrize("name", STATISTICS)
def test_normalize_follows_its_formula(name):
    mean, std = (np.array(values).reshape(1, 3, 1, 1) for values in STATISTICS[name])
    result = Normalize(name)({"image": paddle.to_tensor(images()), "label": 1})
    assert result["image"].dtype == paddle.float32 and result["label"] == 1
    np.testing.assert_allclose(result["image"].numpy(), (images() / 255 - mean) / std, atol=2e-6)


def test_normalize_treats_every_view_and_leaves_the_given_batch_alone():
    batch = {"views": [paddle.to_tensor(images()), paddle.to_tensor(images(2, 3))]}
    result = Normalize([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])(batch)
    np.testing.assert_allclose(result["views"][1].numpy(), images(2, 3) / 127.5 - 1, atol=1e-6)
    assert batch["views"][0].dtype == paddle.uint8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["123.675"], None), "no std"),
        (([123.675, 116.28, 103.53], [58.4, 57.1, 57.4]), "divide numbers on the 0..255 scale by 255"),
        (("imagnet",), "expected one of imagenet"),
        (([0.5, 0.5, 0.5], [0.5, 0.5, 0.0]), "std"),
    ],
)
def test_statistics_that_cannot_be_meant_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Normalize(*arguments)
