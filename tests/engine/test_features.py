# SPDX-License-Identifier: Apache-2.0
import numpy as np
import paddle
import pytest
from paddle import nn

from passl.engine import features as module
from passl.engine.features import extract_features, frozen, in_dataset_order, per_image
from passl.utils.errors import DataError
from tests.engine.fakes import ArrayData, ArrayLoader, Identity, clusters

ROWS, LABELS = clusters(23, 3)


@pytest.mark.parametrize("batch_size", [1, 7, 23, 64])
def test_features_come_in_dataset_order_for_any_batch_size(batch_size):
    loader = ArrayLoader(ArrayData(ROWS, LABELS), batch_size)
    loader.indices = loader.indices[::-1]
    features, labels = extract_features(Identity(), loader)
    assert features.dtype == np.float32 and labels.dtype == np.int64
    assert np.array_equal(features, ROWS) and np.array_equal(labels, LABELS)


def test_rows_come_in_order_when_they_are_sent_in_chunks(monkeypatch):
    monkeypatch.setattr(module, "CHUNK_ROWS", 5)
    order = np.random.default_rng(0).permutation(23)
    assert np.array_equal(in_dataset_order(order, ROWS[order], 23), ROWS)


def test_batch_transforms_are_applied_before_the_model():
    loader = ArrayLoader(ArrayData(ROWS, LABELS), batch_transforms=[lambda b: {**b, "image": b["image"] * 2}] * 2)
    assert np.allclose(extract_features(Identity(), loader)[0], 4 * ROWS)


def test_a_data_set_without_labels_gives_none():
    assert extract_features(Identity(), ArrayLoader(ArrayData(ROWS, None, classes=[])))[1] is None


@pytest.mark.parametrize(
    "change, said", [(lambda i: i[:-1], "image 22 came 0"), (lambda i: np.append(i, 4), "image 4 came 2")]
)
def test_a_missing_or_doubled_image_is_an_error(change, said):
    loader = ArrayLoader(ArrayData(ROWS, LABELS))
    loader.indices = change(loader.indices)
    with pytest.raises(DataError, match=said):
        extract_features(Identity(), loader)


def test_images_that_the_loader_skipped_have_no_row():
    loader = ArrayLoader(ArrayData(ROWS, LABELS), skipped=[0, 9])
    features, labels = extract_features(Identity(), loader)
    assert np.array_equal(features, np.delete(ROWS, [0, 9], axis=0))
    assert np.array_equal(labels, np.delete(LABELS, [0, 9]))


def test_an_empty_data_set_is_an_error():
    with pytest.raises(DataError, match="cannot share 0 images"):
        extract_features(Identity(), ArrayLoader(ArrayData(ROWS[:0], LABELS[:0], classes=["a"])))


def test_features_that_are_not_vectors_are_an_error():
    method = Identity()
    method.features = lambda images: images.reshape([-1, 2, 4])
    with pytest.raises(ValueError, match=r"must be \[B, D\], but Identity gives \[B, 2, 4\]"):
        extract_features(method, ArrayLoader(ArrayData(ROWS, LABELS)))


def test_each_layer_returns_to_its_own_mode_even_after_an_error():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1D(2), nn.Dropout()))
    net[1][0].eval()
    before = [layer.training for layer in net.sublayers(include_self=True)]
    with pytest.raises(KeyError), frozen(net):
        assert not any(layer.training for layer in net.sublayers(include_self=True))
        raise KeyError
    assert [layer.training for layer in net.sublayers(include_self=True)] == before == [True, True, True, False, True]
    assert paddle.is_grad_enabled()


def test_columns_keep_their_type_and_shape():
    loader = ArrayLoader(ArrayData(ROWS, LABELS))
    index, wide = per_image(Identity(), loader, lambda b: [b["index"], b["image"].reshape([-1, 2, 4])])
    assert index.tolist() == list(range(23)) and wide.shape == (23, 2, 4)
