# SPDX-License-Identifier: Apache-2.0
import os

import pytest

from passl.data.datasets import ImageList
from passl.utils.errors import DataError

from ..makers import save_images


def write(tmp_path, *lines):
    path = tmp_path / "list.txt"
    path.write_text("\n".join(lines))
    return str(path)


def test_paths_are_relative_to_the_list_and_may_contain_spaces(tmp_path):
    save_images(tmp_path / "my images", ["a b.jpg", "c.jpg"])
    dataset = ImageList(write(tmp_path, "my images/a b.jpg 2", "", "my images/c.jpg 0"))
    assert dataset.labels().tolist() == [2, 0] and dataset.classes == ["0", "1", "2"]
    assert os.path.basename(dataset.path(0)) == "a b.jpg" and dataset.load(0)[1] == 2


def test_another_root_and_delimiter(tmp_path):
    save_images(tmp_path / "pictures", ["a.jpg"])
    dataset = ImageList(write(tmp_path, "a.jpg,3"), root=str(tmp_path / "pictures"), delimiter=",")
    assert dataset.load(0)[1] == 3


def test_labels_may_be_class_names(tmp_path):
    dataset = ImageList(write(tmp_path, "a.jpg dog", "b.jpg cat", "c.jpg 1"), classes=["cat", "dog"])
    assert dataset.labels().tolist() == [1, 0, 1] and dataset.classes == ["cat", "dog"]


def test_a_list_without_labels(tmp_path):
    save_images(tmp_path, ["a b.jpg"])
    dataset = ImageList(write(tmp_path, "a b.jpg"), labelled=False)
    assert dataset.labels() is None and dataset.load(0)[1] is None and dataset.classes == []


def test_all_faulty_lines_are_reported_with_file_and_line(tmp_path):
    path = write(tmp_path, "a.jpg 0", "b.jpg", "c.jpg dgo", "d.jpg 7")
    with pytest.raises(DataError) as caught:
        ImageList(path, classes=["cat", "dog"])
    message = str(caught.value)
    assert "3 lines" in message and f"{path}:2: no label" in message
    assert f"{path}:3: label 'dgo' is neither" in message and "did you mean 'dog'" in message
    assert f"{path}:4: label 7 is outside the 2 classes" in message


@pytest.mark.parametrize(
    ("name", "message"), [("none.txt", "cannot read the list file"), ("list.txt", "names no image")]
)
def test_a_missing_or_empty_list_is_an_error(tmp_path, name, message):
    write(tmp_path, "")
    with pytest.raises(DataError, match=message):
        ImageList(str(tmp_path / name))
