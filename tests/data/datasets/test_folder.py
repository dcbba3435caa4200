# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import os

import numpy as np
import pytest

from passl.data.datasets import ImageFiles, ImageFolder
from passl.data.datasets.folder import image_files
from passl.data.datasets.paths import PathList
from passl.data.transforms import Resize, Views
from passl.utils.errors import DataError
from passl.utils.registry import DATASETS, build

from ..makers import class_tree, save_images


def test_classes_are_the_sorted_folder_names_and_files_are_sorted_within_them(tmp_path):
    dataset = ImageFolder(class_tree(tmp_path, {"dog": 2, "cat": 3, "Ant": 1}))
    assert dataset.classes == ["Ant", "cat", "dog"]
    assert dataset.labels().tolist() == [0, 1, 1, 1, 2, 2] and len(dataset) == 6
    assert [os.path.basename(dataset.path(i)) for i in range(3)] == ["Ant0.jpg", "cat0.jpg", "cat1.jpg"]
    assert dataset.class_counts() == {"Ant": 1, "cat": 3, "dog": 2}
    assert repr(dataset) == f"ImageFolder({tmp_path}, 6 images, 3 classes)"


def test_sample_is_uint8_channels_first_with_label_and_index(tmp_path):
    dataset = ImageFolder(class_tree(tmp_path, {"cat": 1, "dog": 1}))
    sample = dataset[1]
    image, label = dataset.load(1)
    assert sample["image"].dtype == np.uint8 and sample["image"].shape == (3, 30, 40)
    assert np.array_equal(sample["image"].transpose(1, 2, 0), np.asarray(image))
    assert sample["label"] == label == 1 and sample["index"] == 1
    with pytest.raises(IndexError, match="index 2 is outside a data set of 2 images"):
        dataset[2]


def test_a_config_builds_the_data_set_with_its_transforms(tmp_path):
    root = class_tree(tmp_path, {"cat": 1})
    views = {"name": "Views", "count": 2, "transforms": [{"name": "Resize", "size": [8, 9]}]}
    dataset = build({"name": "ImageFolder", "root": root, "transforms": [views]}, DATASETS)
    assert [view.shape for view in dataset[0]["views"]] == [(3, 8, 9)] * 2 and "image" not in dataset[0]


def test_nested_folders_hidden_files_and_other_extensions(tmp_path):
    class_tree(tmp_path, {"cat": 1})
    save_images(tmp_path / "cat" / "indoor", ["b.JPG", ".hidden.jpg"])
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / ".cache").mkdir()
    dataset = ImageFolder(str(tmp_path))
    assert [os.path.relpath(dataset.path(i), tmp_path) for i in range(2)] == ["cat/cat0.jpg", "cat/indoor/b.JPG"]
    assert len(dataset) == 2 and dataset.classes == ["cat"]
    with pytest.raises(DataError, match="no images in class folders"):
        ImageFolder(str(tmp_path), extensions=[".png"])


@pytest.mark.parametrize("kind", ["list", "folder", "txt", "json", "json index"])
def test_the_class_map_of_the_training_split_rules_the_validation_split(tmp_path, kind):
    train = class_tree(tmp_path / "train", {"cat": 1, "cow": 1, "dog": 1})
    val = class_tree(tmp_path / "val", {"dog": 2, "cat": 1})
    names = ["cat", "cow", "dog"]
    (tmp_path / "c.txt").write_text("cat\ncow\n\ndog\n")
    (tmp_path / "c.json").write_text(json.dumps(names))
    (tmp_path / "i.json").write_text(json.dumps({str(i): [name, "word"] for i, name in enumerate(names)}))
    sources = {"list": names, "folder": train, "txt": "c.txt", "json": "c.json", "json index": "i.json"}
    source = sources[kind] if kind in ("list", "folder") else str(tmp_path / sources[kind])
    assert ImageFolder(val).labels().tolist() == [0, 1, 1]
    dataset = ImageFolder(val, classes=source)
    assert dataset.labels().tolist() == [0, 2, 2] and dataset.classes == names


def test_a_validation_class_that_training_lacks_is_an_error_with_a_hint(tmp_path):
    val = class_tree(tmp_path, {"cat": 1, "dogs": 1})
    with pytest.raises(DataError, match="does not have: 'dogs' - did you mean 'dog'"):
        ImageFolder(val, classes=["cat", "dog"])


@pytest.mark.parametrize(
    ("content", "message"), [("a\na\n", "names a more than once"), ("", "names no class"), (None, "cannot read")]
)
def test_a_class_list_that_makes_no_sense_is_refused(tmp_path, content, message):
    root = class_tree(tmp_path / "data", {"cat": 1})
    if content is not None:
        (tmp_path / "classes.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        ImageFolder(root, classes=str(tmp_path / "classes.txt"))


def test_a_missing_root_names_the_path_the_layout_and_what_is_there(tmp_path):
    (tmp_path / "imagenet").mkdir()
    with pytest.raises(DataError) as caught:
        ImageFolder(str(tmp_path / "imagenett" / "train"))
    message = str(caught.value)
    assert "imagenett/train does not exist" in message
    assert f"found in {tmp_path}: imagenet/" in message and "expected: one folder for each class" in message


def test_loose_images_lead_to_the_data_set_without_labels(tmp_path):
    save_images(tmp_path, ["b.jpg", "a.jpg"])
    save_images(tmp_path / "more", ["c.png"])
    with pytest.raises(DataError, match=r"(?s)no images in class folders.*"):
        ImageFolder(str(tmp_path), classes=["more"], extensions=[".jpg"])
    with pytest.raises(DataError, match="ImageFiles"):
        ImageFolder(str(tmp_path), extensions=[".jpg"])
    dataset = ImageFiles(str(tmp_path), transforms=[Views([Resize([4, 4])])])
    assert [os.path.basename(dataset.path(i)) for i in range(3)] == ["a.jpg", "b.jpg", "c.png"]
    assert dataset.labels() is None and set(dataset[0]) == {"index", "views"}


def test_path_list_gives_back_any_file_name():
    names = ["a/b.jpg", "ünï/çødé 1.jpg", "", os.fsdecode(b"raw\xff.jpg")]
    paths = PathList(names)
    assert list(paths) == names and paths[1:3] == names[1:3] and len(PathList([])) == 0


def test_links_that_lead_back_to_a_folder_are_not_followed(tmp_path):
    root = class_tree(tmp_path / "data", {"cat": 1, "dog": 1})
    os.symlink(os.path.join(root, "cat"), os.path.join(root, "cat", "itself"))
    os.symlink(tmp_path, os.path.join(root, "dog", "above"))
    os.symlink(os.path.join(root, "dog"), os.path.join(root, "cat", "other"))
    os.symlink(os.path.join(root, "cat"), os.path.join(root, "dog", "other"))
    found = list(itertools.islice(image_files(root, (".jpg",)), 100))  # a way that never ends is long, not endless
    assert found == ["cat/cat0.jpg", "cat/other/dog0.jpg", "dog/dog0.jpg", "dog/other/cat0.jpg"]
