# SPDX-License-Identifier: Apache-2.0
import numpy as np
import paddle
import pytest

from passl.methods import build_method

CONFIG = {
    "name": "MAE",
    "architecture": {"name": "ViT", "img_size": 16, "patch_size": 4, "embed_dim": 32, "depth": 2, "num_heads": 2},
    "decoder": {
        "name": "MAEDecoder",
        "in_dim": 32,
        "grid_size": 4,
        "patch_size": 4,
        "embed_dim": 16,
        "depth": 1,
        "num_heads": 2,
    },
    "loss": {"name": "MaskedReconstruction", "norm_pix": False},
}


@pytest.fixture
def mae():
    paddle.seed(0)
    return build_method(CONFIG)


def images(seed=0):
    return paddle.to_tensor(np.random.default_rng(seed).standard_normal([3, 3, 16, 16]).astype("float32"))


def test_each_image_keeps_exactly_a_quarter_and_its_own(mae):
    keep, restore, mask = mae.random_mask(8)
    assert keep.shape == [8, 4]
    assert mask.sum(1).tolist() == [12.0] * 8
    kept = np.sort(keep.numpy(), axis=1)
    assert all((mask.numpy()[i, row] == 0).all() for i, row in enumerate(kept))
    assert len({tuple(row) for row in kept}) > 1
    np.testing.assert_array_equal(np.sort(restore.numpy(), axis=1), np.tile(np.arange(16), [8, 1]))


def test_all_patches_are_kept_equally_often(mae):
    keep, _, _ = mae.random_mask(4000)
    counts = np.bincount(keep.numpy().ravel(), minlength=16)
    np.testing.assert_allclose(counts, 1000, atol=6 * np.sqrt(4000 * 0.25 * 0.75))


def test_masked_pixels_do_not_reach_the_prediction_and_visible_ones_do(mae, monkeypatch):
    shuffled = mae.random_mask(3)
    monkeypatch.setattr(mae, "random_mask", lambda size: shuffled)
    before, mask = mae.reconstruct(images())
    for masked, changes in ((1.0, False), (0.0, True)):
        row, column = divmod(int(np.flatnonzero(mask.numpy()[0] == masked)[0]), 4)
        changed = images()
        changed[0, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 5.0
        after, _ = mae.reconstruct(changed)
        assert bool((after != before).any()) is changes


def test_every_parameter_gets_a_gradient(mae):
    x = images()
    outputs = mae({"image": x})
    outputs["loss"].backward()
    unused = [name for name, p in mae.named_parameters() if not p.stop_gradient and p.grad is None]
    assert unused == []


@pytest.mark.parametrize("ratio", [0.99, 0.0, 1.0])
def test_a_ratio_that_keeps_nothing_or_everything_is_refused(ratio):
    with pytest.raises(ValueError, match=f"mask_ratio \\(={ratio}\\)"):
        build_method({**CONFIG, "mask_ratio": ratio})


def test_a_few_steps_lower_the_loss(mae):
    optimizer = paddle.optimizer.AdamW(3e-3, parameters=mae.parameters())
    x, losses = images(), []
    for _ in range(30):
        loss = mae({"image": x})["loss"]
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    assert np.mean(losses[-5:]) < 0.95 * np.mean(losses[:5])
