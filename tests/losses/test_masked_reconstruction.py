# SPDX-License-Identifier: Apache-2.0
import numpy as np
import paddle
import pytest

from passl.losses import MaskedReconstruction, patchify, unpatchify
from tests.training_cases import assert_gradient, assert_scalar, inputs_of, load_cases

CASES = load_cases("losses/cases/masked_reconstruction.json")


def slow_loss(predictions, images, mask, patch, norm_pix):
    """Patch by patch, pixel by pixel, in float64."""
    batch, channels, height, width = images.shape
    errors = []
    for b in range(batch):
        n = 0
        for top in range(0, height, patch):
            for left in range(0, width, patch):
                values = [
                    float(images[b, c, top + i, left + j])
                    for i in range(patch)
                    for j in range(patch)
                    for c in range(channels)
                ]
                if norm_pix:
                    mean = sum(values) / len(values)
                    variance = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
                    values = [(v - mean) / (variance + 1e-6) ** 0.5 for v in values]
                if mask[b, n]:
                    errors.append(sum((p - v) ** 2 for p, v in zip(predictions[b, n], values)) / len(values))
                n += 1
    return sum(errors) / len(errors)


def random_inputs(height=8, width=12, patch=4, channels=3, batch=2):
    rng = np.random.default_rng(0)
    images = rng.standard_normal([batch, channels, height, width]).astype(np.float32)
    count = height * width // patch**2
    predictions = rng.standard_normal([batch, count, patch * patch * channels]).astype(np.float32)
    mask = np.zeros([batch, count], dtype=np.float32)
    mask[0, :2], mask[1, -1] = 1, 1  # unequal counts: the mean runs over patches, not over images
    return predictions, images, mask


@pytest.mark.parity
@pytest.mark.parametrize("name", ["mae_norm_pix_off", "mae_norm_pix_on"])
def test_equals_mae(name):
    case = CASES[name]
    inputs = inputs_of(case)
    loss = MaskedReconstruction(case["params"]["norm_pix_loss"])(inputs["pred"], inputs["imgs"], inputs["mask"])
    loss.backward()
    assert_scalar(loss, case["expect"]["loss"])
    assert_gradient(inputs["pred"].grad, case["grad"]["pred"])


@pytest.mark.parity
def test_patches_are_ordered_as_in_mae():
    case = CASES["mae_patchify_order"]
    patches = patchify(inputs_of(case)["imgs"], case["params"]["patch"])
    assert np.array_equal(patches.numpy(), np.asarray(case["expect"]["patches"], dtype=np.float32))


@pytest.mark.parametrize("norm_pix", [True, False])
def test_equals_the_slow_formula(norm_pix):
    predictions, images, mask = random_inputs()
    loss = MaskedReconstruction(norm_pix)(*map(paddle.to_tensor, (predictions, images, mask)))
    assert_scalar(loss, slow_loss(predictions, images, mask, 4, norm_pix))


@pytest.mark.parametrize("channels", [1, 3])
def test_unpatchify_is_the_inverse_of_patchify(channels):
    images = paddle.randn([2, channels, 8, 12])
    assert np.array_equal(unpatchify(patchify(images, 4), (2, 3), channels).numpy(), images.numpy())


def test_normalised_targets_have_mean_zero_and_unbiased_variance_one():
    target = MaskedReconstruction().target(3 + 2 * paddle.randn([2, 3, 8, 8]), 4)
    assert float(target.mean(-1).abs().max()) < 1e-5
    assert float((target.var(-1, unbiased=True) - 1).abs().max()) < 1e-5


def test_a_perfect_prediction_costs_nothing():
    images = paddle.randn([2, 3, 8, 8])
    loss = MaskedReconstruction()
    assert float(loss(loss.target(images, 4), images, paddle.ones([2, 4]))) == 0.0


def test_visible_patches_do_not_matter():
    predictions, images, mask = random_inputs()
    changed = images.copy()
    changed[0, :, :, -4:] += 5.0  # the last column of patches is visible in the first image
    predictions = paddle.to_tensor(predictions, stop_gradient=False)
    loss = MaskedReconstruction()
    value = loss(predictions, paddle.to_tensor(images), paddle.to_tensor(mask))
    assert float(value) == float(loss(predictions, paddle.to_tensor(changed), paddle.to_tensor(mask)))
    value.backward()
    gradient = predictions.grad.abs().sum(-1).numpy()
    assert np.array_equal(gradient > 0, mask > 0)


def test_half_precision_predictions_are_compared_in_float32():
    predictions, images, mask = random_inputs()
    loss = MaskedReconstruction()(
        paddle.to_tensor(predictions).astype("bfloat16"), paddle.to_tensor(images), paddle.to_tensor(mask)
    )
    assert loss.dtype == paddle.float32


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="8x10 pixels cannot be cut into patches of 4"):
        patchify(paddle.randn([1, 3, 8, 10]), 4)
    with pytest.raises(ValueError, match="a grid of 2x3 has 6 patches, got 4"):
        unpatchify(paddle.randn([1, 4, 48]), (2, 3))
    with pytest.raises(ValueError, match="50 values are no square patch of 3 channels"):
        unpatchify(paddle.randn([1, 4, 50]), (2, 2))
