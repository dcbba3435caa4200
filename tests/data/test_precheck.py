# SPDX-License-Identifier: Apache-2.0
import importlib
import os

import numpy as np
import pytest

from passl.data.datasets import FakeImages, FashionMNIST, ImageFiles, ImageFolder, ImageList
from passl.data.precheck import looks_whole, precheck
from passl.utils.errors import DataError

from .makers import class_tree, noise_image, save_images, truncate

module = importlib.import_module("passl.data.precheck")


@pytest.fixture
def tree(tmp_path):
    return class_tree(tmp_path / "train", {"ant": 3, "cat": 4, "dog": 2})


def test_a_sound_data_set_gives_a_report_of_counts(tree):
    report = precheck(ImageFolder(tree), num_classes=3, img_size=30)
    assert report.class_counts == {"ant": 3, "cat": 4, "dog": 2} and not report.warnings
    assert report.num_decoded == report.num_quick == 9
    assert str(report).startswith("9 images in 3 classes, 2 ('dog') to 4 ('cat') each; 9 files looked at")


def test_every_fault_is_named_in_one_error(tree):
    truncate(os.path.join(tree, "cat", "cat1.jpg"))
    with open(os.path.join(tree, "dog", "page.jpg"), "w") as file:
        file.write("<html>not found</html>")
    os.mkdir(os.path.join(tree, "eel"))
    with pytest.raises(DataError) as caught:
        precheck(ImageFolder(tree), num_classes=2, train_classes=["ant", "cat", "dog"])
    message = str(caught.value)
    assert message.startswith("dataloader.train.dataset: 4 problems in ImageFolder(")
    assert f"1 class folders hold no image: {tree}/eel" in message
    assert "set model.head.num_classes: 4" in message
    assert "not in training: eel" in message
    assert "2 files cannot be read" in message and "cat1.jpg: image file is truncated" in message
    assert "page.jpg: the file is no image" in message and "on_bad_file: skip" in message


def test_unreadable_files_are_warnings_where_they_will_be_skipped(tree):
    truncate(os.path.join(tree, "cat", "cat1.jpg"))
    report = precheck(ImageFolder(tree), on_bad_file="skip")
    assert len(report.unreadable) == 1 and "warning: 1 files cannot be read" in str(report)


def test_a_class_order_that_differs_from_training_is_an_error(tree):
    with pytest.raises(DataError, match="the same names in another order"):
        precheck(ImageFolder(tree), train_classes=["dog", "cat", "ant"])


def test_a_class_of_training_without_validation_images_is_a_warning(tree):
    dataset = ImageFolder(tree, classes=["ant", "bee", "cat", "dog"])
    report = precheck(dataset, num_classes=4, train_classes=dataset.classes)
    assert report.warnings == ["1 classes have no image: bee"]


def test_training_data_without_classes_sets_no_class_map(tree):
    assert not precheck(ImageFolder(tree), train_classes=ImageFiles(tree).classes).warnings


def test_small_images_and_a_large_head_are_warnings(tree):
    report = precheck(ImageFolder(tree), num_classes=1000, img_size=224)
    assert "the head has 1000 outputs for 3 classes" in report.warnings[0]
    assert "9 of 9 decoded images are smaller than the model's 224 pixels (smallest 40x30" in report.warnings[1]


def test_a_head_needs_labels(tree):
    assert precheck(ImageFiles(tree)).class_counts == {}
    with pytest.raises(DataError, match="it has no labels"):
        precheck(ImageFiles(tree), num_classes=3)


def test_missing_files_of_a_list_are_found(tmp_path):
    save_images(tmp_path, ["a.jpg"])
    (tmp_path / "list.txt").write_text("a.jpg 0\nb.jpg 1\n")
    with pytest.raises(DataError, match=r"b\.jpg: the file does not exist"):
        precheck(ImageList(str(tmp_path / "list.txt")))


def test_large_data_sets_are_sampled_but_every_file_is_looked_at(tree, monkeypatch):
    monkeypatch.setattr(module, "DECODE_ALL_BELOW", 5)
    monkeypatch.setattr(module, "DECODE_SAMPLE", 2)
    report = precheck(ImageFolder(tree))
    assert (report.num_decoded, report.num_quick) == (2, 9)
    truncate(os.path.join(tree, "cat", "cat1.jpg"))
    with pytest.raises(DataError, match=r"cat1\.jpg"):
        precheck(ImageFolder(tree))


def test_decoding_all_or_nothing(tree, monkeypatch):
    monkeypatch.setattr(module, "DECODE_ALL_BELOW", 5)
    monkeypatch.setattr(module, "DECODE_SAMPLE", 2)
    assert precheck(ImageFolder(tree), decode="all").num_decoded == 9
    truncate(os.path.join(tree, "cat", "cat1.jpg"))
    assert precheck(ImageFolder(tree), decode="none").num_quick == 0
    with pytest.raises(DataError, match="decode='some'"):
        precheck(ImageFolder(tree), decode="some")


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_quick_look_tells_whole_from_truncated(tmp_path, suffix):
    path = str(tmp_path / f"x.{suffix}")
    noise_image().save(path)
    assert looks_whole(path)
    truncate(path, 0.9)
    assert not looks_whole(path)


def test_a_whole_file_with_bytes_after_its_end_is_fine(tree):
    with open(os.path.join(tree, "cat", "cat1.jpg"), "ab") as file:
        file.write(bytes(10))
    assert not precheck(ImageFolder(tree)).unreadable


@pytest.mark.parametrize("dataset", [FakeImages(50, 5, 16), FashionMNIST("test")], ids=repr)
def test_images_in_memory_are_not_decoded_one_by_one(dataset):
    report = precheck(dataset, num_classes=len(dataset.classes))
    assert report.num_decoded == 1 and sum(report.class_counts.values()) == len(dataset)


def test_a_data_set_with_getitem_only_is_read_once():
    report = precheck([{"image": noise_image()}] * 7, num_classes=3)
    assert (report.num_images, report.num_decoded, report.class_counts) == (7, 1, {})


def test_negative_labels_are_outside(tmp_path):
    dataset = FakeImages(10, 5, 8)
    dataset.labels = lambda: np.array([-1, 2])
    with pytest.raises(DataError, match="labels go from -1 to 2"):
        precheck(dataset, num_classes=5)


def test_images_are_compared_with_both_sides_of_a_model_that_is_not_square(tmp_path):
    dataset = ImageFolder(class_tree(tmp_path, {"cat": 2}))  # 40 pixels wide, 30 high
    assert not precheck(dataset, img_size=[30, 40]).warnings
    [warning] = precheck(dataset, img_size=[30, 41]).warnings
    assert warning.startswith("2 of 2 decoded images are smaller than the model's 41x30 pixels (smallest 40x30")
