# SPDX-License-Identifier: Apache-2.0
import os
import shutil

import pytest

from passl.data.datasets import ImageNet
from passl.utils.errors import DataError

from ..makers import class_tree, save_images

WNIDS = {"n01440764": 2, "n01443537": 1, "n01484850": 2}


@pytest.fixture
def root(tmp_path):
    class_tree(tmp_path / "train", WNIDS)
    return tmp_path


def flat(root, lines=("val/v1.JPEG 2", "val/v2.JPEG 0")):
    save_images(root / "val", ["v1.JPEG", "v2.JPEG"])
    (root / "val_list.txt").write_text("\n".join(lines))


def test_training_split_is_class_folders(root):
    dataset = ImageNet(str(root))
    assert dataset.classes == list(WNIDS) and dataset.labels().tolist() == [0, 0, 1, 2, 2]
    assert dataset.load(4)[1] == 2


def test_validation_folders_take_their_labels_from_the_training_split(root):
    class_tree(root / "val", {"n01484850": 1})
    assert ImageNet(str(root), "val").labels().tolist() == [2]
    shutil.rmtree(root / "train")
    assert ImageNet(str(root), "val").labels().tolist() == [0]
    assert ImageNet(str(root), "val", classes=list(WNIDS)).labels().tolist() == [2]


@pytest.mark.parametrize("prefix", ["val/", ""])
def test_flat_validation_folder_with_a_list_file(root, prefix):
    flat(root, [f"{prefix}v1.JPEG 2", f"{prefix}v2.JPEG 0"])
    dataset = ImageNet(str(root), "val")
    assert dataset.labels().tolist() == [2, 0] and dataset.classes == list(WNIDS)
    assert os.path.samefile(dataset.path(0), root / "val" / "v1.JPEG") and dataset.load(0)[1] == 2


def test_flat_validation_without_a_training_split(root):
    flat(root)
    shutil.rmtree(root / "train")
    assert ImageNet(str(root), "val").classes == ["0", "1", "2"]
    (root / "classes.txt").write_text("a\nb\nc\nd\n")
    assert ImageNet(str(root), "val").classes == ["a", "b", "c", "d"]


def test_list_file_elsewhere(root, tmp_path_factory):
    flat(root)
    path = tmp_path_factory.mktemp("lists") / "mine.txt"
    path.write_text("v2.JPEG 1\n")
    assert ImageNet(str(root), "val", list_file=str(path)).labels().tolist() == [1]


def test_flat_validation_without_a_list_says_which_file_is_missing(root):
    flat(root)
    os.remove(root / "val_list.txt")
    with pytest.raises(DataError, match=r"(?s)is flat, so its labels must come from the list file .*val_list.txt"):
        ImageNet(str(root), "val")


def test_missing_split_shows_the_layout(root):
    with pytest.raises(DataError, match=r"(?s)val does not exist.*train/.*root/train/n01440764"):
        ImageNet(str(root), "val")
    with pytest.raises(DataError, match="split='test'"):
        ImageNet(str(root), "test")


def test_unknown_validation_class_is_an_error(root):
    class_tree(root / "val", {"n99999999": 1})
    with pytest.raises(DataError, match="n99999999"):
        ImageNet(str(root), "val")
