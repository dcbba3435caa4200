# SPDX-License-Identifier: Apache-2.0
import io
import os
import pickle
import tarfile

import numpy as np
import pytest

from passl.data.datasets import CIFAR10, CIFAR100
from passl.utils.errors import DataError

ROWS = np.random.default_rng(0).integers(0, 256, (12, 3072), np.uint8)
LABELS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
NAMES10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def dump(content):
    """A pickle as Python 2 wrote it: byte-string keys, protocol 2, NumPy's old module names."""
    data = pickle.dumps(content, protocol=2)
    return data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def cifar10_files():
    files = {
        f"data_batch_{i + 1}": dump({b"data": ROWS[2 * i : 2 * i + 2], b"labels": LABELS[2 * i : 2 * i + 2]})
        for i in range(5)
    }
    files["test_batch"] = dump({b"data": ROWS[10:], b"labels": LABELS[10:]})
    files["batches.meta"] = dump({b"label_names": [name.encode() for name in NAMES10]})
    return files


def write_archive(path, folder, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def write_folder(folder, files):
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def binary_files():
    records = [bytes([label]) + row.tobytes() for label, row in zip(LABELS, ROWS)]
    files = {f"data_batch_{i + 1}.bin": b"".join(records[2 * i : 2 * i + 2]) for i in range(5)}
    names = "\n".join(NAMES10).encode() + b"\n\n"
    return {**files, "test_batch.bin": b"".join(records[10:]), "batches.meta.txt": names}


def check10(root):
    train, test = CIFAR10(str(root)), CIFAR10(str(root), "test")
    assert train.classes == NAMES10 and len(train) == 10 and len(test) == 2
    assert train.labels().tolist() == LABELS[:10] and test.labels().tolist() == LABELS[10:]
    image, label = train.load(7)
    assert label == 6 and np.array_equal(np.asarray(image).transpose(2, 0, 1).ravel(), ROWS[7])


def test_cifar10_from_the_python_archive(tmp_path):
    write_archive(tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py", cifar10_files())
    check10(tmp_path)


def test_cifar10_from_the_unpacked_folder_or_its_parent(tmp_path):
    write_folder(tmp_path / "cifar-10-batches-py", cifar10_files())
    check10(tmp_path)
    check10(tmp_path / "cifar-10-batches-py")


@pytest.mark.parametrize("packed", [True, False])
def test_cifar10_from_the_binary_version(tmp_path, packed):
    if packed:
        write_archive(tmp_path / "cifar-10-binary.tar.gz", "cifar-10-batches-bin", binary_files())
    else:
        write_folder(tmp_path / "cifar-10-batches-bin", binary_files())
    check10(tmp_path)


def cifar100_files(binary):
    coarse, fine = [7, 8, 9], [70, 80, 90]
    names = [f"fine{i}" for i in range(100)]
    if binary:
        data = b"".join(bytes([c, f]) + row.tobytes() for c, f, row in zip(coarse, fine, ROWS))
        return {"train.bin": data, "test.bin": data, "fine_label_names.txt": "\n".join(names).encode()}
    data = dump({b"data": ROWS[:3], b"fine_labels": fine, b"coarse_labels": coarse})
    meta = dump({b"fine_label_names": [name.encode() for name in names], b"coarse_label_names": []})
    return {"train": data, "test": data, "meta": meta}


@pytest.mark.parametrize("binary", [False, True])
def test_cifar100_uses_the_fine_labels(tmp_path, binary):
    folder = "cifar-100-binary" if binary else "cifar-100-python"
    write_archive(tmp_path / f"{folder}.tar.gz", folder, cifar100_files(binary))
    dataset = CIFAR100(str(tmp_path))
    assert dataset.labels().tolist() == [70, 80, 90] and dataset.classes[99] == "fine99"
    assert np.array_equal(np.asarray(dataset.load(2)[0]).transpose(2, 0, 1).ravel(), ROWS[2])


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("packed", [True, False])
def test_a_pickle_that_wants_to_run_code_is_refused_and_does_not_run(tmp_path, packed):
    files = {**cifar10_files(), "data_batch_3": pickle.dumps({b"data": Evil(str(tmp_path / "ran"))}, protocol=2)}
    if packed:
        write_archive(tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py", files)
    else:
        write_folder(tmp_path / "cifar-10-batches-py", files)
    with pytest.raises(DataError, match=r"data_batch_3 was refused: it wants to call posix\.mkdir"):
        CIFAR10(str(tmp_path))
    assert not (tmp_path / "ran").exists()


def test_a_truncated_archive_is_an_error(tmp_path):
    path = tmp_path / "cifar-10-python.tar.gz"
    write_archive(path, "cifar-10-batches-py", cifar10_files())
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DataError, match=r"cifar-10-python.tar.gz (is damaged|lacks)"):
        CIFAR10(str(tmp_path))


def test_missing_files_and_foreign_contents_are_named(tmp_path):
    with pytest.raises(DataError, match=r"(?s)no CIFAR10 in .*cifar-10-python.tar.gz or.*is empty"):
        CIFAR10(str(tmp_path))
    files = cifar10_files()
    del files["data_batch_5"]
    write_folder(tmp_path / "cifar-10-batches-py", {**files, "test_batch": dump({b"data": ROWS})})
    with pytest.raises(DataError, match="lacks the file data_batch_5"):
        CIFAR10(str(tmp_path))
    with pytest.raises(DataError, match="is no CIFAR10 archive"):
        CIFAR10(str(tmp_path), "test")
    with pytest.raises(DataError, match="split='val'"):
        CIFAR10(str(tmp_path), "val")
