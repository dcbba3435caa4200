# SPDX-License-Identifier: Apache-2.0
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from passl.data import worker
from passl.data.datasets import ImageFolder
from passl.data.loader import Loader, eval_loader, resolve_num_workers, train_loader
from passl.data.samplers import EpochSampler, EvalSampler
from passl.data.transforms import ColorJitter, RandomCrop, RandomResizedCrop, Resize, Views
from passl.utils.errors import DataError

from .makers import Arange, class_tree, truncate

AUGMENT = [Views([RandomResizedCrop(6, scale=(0.2, 1.0)), ColorJitter(0.4, 0.4, 0.2, 0.1)])]


@pytest.fixture
def tree(tmp_path):
    return class_tree(tmp_path / "train", {"cat": 7, "dog": 6})


def arrays(batches):
    """Everything in ``batches`` as NumPy arrays, views apart."""
    return [
        [part.numpy() for value in batch.values() for part in (value if isinstance(value, list) else [value])]
        for batch in batches
    ]


def assert_equal(batches, others):
    assert len(batches) == len(others) > 0
    for batch, other in zip(arrays(batches), arrays(others)):
        assert all(np.array_equal(a, b) for a, b in zip(batch, other)) and len(batch) == len(other)


def test_batch_has_uint8_images_and_int64_labels_and_indices():
    batch = next(iter(train_loader(Arange(), 4, num_workers=0, shuffle=False)))
    assert batch["image"].shape == [4, 3, 8, 8] and str(batch["image"].dtype).endswith("uint8")
    assert batch["image"].numpy()[2].tolist() == np.full((3, 8, 8), 2).tolist()
    assert batch["label"].numpy().tolist() == [0, 1, 2, 0] and batch["index"].numpy().tolist() == [0, 1, 2, 3]
    assert str(batch["label"].dtype).endswith("int64") and str(batch["index"].dtype).endswith("int64")


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_batches_are_the_same_for_any_number_of_workers(tree, num_workers):
    dataset = ImageFolder(tree, AUGMENT)
    with train_loader(dataset, 4, num_workers=num_workers, seed=3, drop_last=False) as loader:
        for epoch in (0, 1, 1):
            alone = list(train_loader(dataset, 4, num_workers=0, seed=3, drop_last=False).iter_epoch(epoch))
            assert_equal(list(loader.iter_epoch(epoch)), alone)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_resumed_half_way_gives_the_batches_that_were_missing(tree, num_workers):
    with train_loader(ImageFolder(tree, AUGMENT), 3, num_workers, seed=1) as loader:
        whole = list(loader.iter_epoch(5))
        assert_equal(list(loader.iter_epoch(5, start_batch=2)), whole[2:])


def test_epochs_and_seeds_differ(tree):
    dataset = ImageFolder(tree, AUGMENT)
    first, second = (list(train_loader(dataset, 13, 0, shuffle=False).iter_epoch(epoch)) for epoch in (0, 1))
    other = list(train_loader(dataset, 13, 0, shuffle=False, seed=1).iter_epoch(0))
    views = [batches[0]["views"][0].numpy() for batches in (first, second, other)]
    assert not np.array_equal(views[0], views[1]) and not np.array_equal(views[0], views[2])


def test_two_processes_with_half_the_batch_see_the_images_of_one(tree):
    dataset = ImageFolder(tree, AUGMENT)
    one = arrays(Loader(dataset, EpochSampler(13, 4, seed=2), seed=2).iter_epoch(1))
    parts = [arrays(Loader(dataset, EpochSampler(13, 2, 2, rank, seed=2), seed=2).iter_epoch(1)) for rank in (0, 1)]
    for whole, left, right in zip(one, *parts):
        assert all(np.array_equal(w, np.concatenate([a, b])) for w, a, b in zip(whole, left, right))


@pytest.mark.parametrize("batch_size", [7, 64])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_evaluation_gives_every_image_once(batch_size, num_workers):
    with eval_loader(Arange(20), batch_size, num_workers) as loader:
        indices = [i for batch in loader for i in batch["index"].numpy().tolist()]
    assert indices == list(range(20))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_unreadable_file_stops_with_its_path(tree, num_workers):
    path = os.path.join(tree, "cat", "cat3.jpg")
    truncate(path)
    with train_loader(ImageFolder(tree, [Resize([8, 8])]), 4, num_workers) as loader:
        with pytest.raises(DataError, match=r"cat3\.jpg: .*truncated") as caught:
            list(loader)
        assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_skipped_files_are_replaced_in_training_and_counted(tree, num_workers):
    for name in ("cat3.jpg", "cat4.jpg"):
        truncate(os.path.join(tree, "cat", name))
    dataset = ImageFolder(tree, [Resize([8, 8])])
    with train_loader(dataset, 4, num_workers, shuffle=False, on_bad_file="skip") as loader:
        batches = list(loader)
        assert [i for batch in batches for i in batch["index"].numpy().tolist()] == [0, 1, 2, 5, 5, *range(5, 12)]
        assert [(bad.position, os.path.basename(bad.path)) for bad in loader.bad_files] == [
            (3, "cat3.jpg"),
            (3, "cat4.jpg"),
            (4, "cat4.jpg"),
        ]
        list(loader.iter_epoch(1))
        assert len(loader.bad_files) == 3  # counted for each epoch anew


@pytest.mark.parametrize("num_workers", [0, 2])
def test_skipped_files_are_left_out_of_an_evaluation(tree, num_workers):
    truncate(os.path.join(tree, "cat", "cat0.jpg"))
    truncate(os.path.join(tree, "dog", "dog5.jpg"))
    dataset = ImageFolder(tree, [Resize([8, 8])])
    with eval_loader(dataset, 4, num_workers, on_bad_file="skip") as loader:
        batches = list(loader)
        assert [i for batch in batches for i in batch["index"].numpy().tolist()] == list(range(1, 12))
        assert len(loader.bad_files) == 2


def test_a_data_set_of_nothing_but_bad_files_ends_with_an_error(tmp_path):
    tree = class_tree(tmp_path, {"cat": 4})
    for name in os.listdir(os.path.join(tree, "cat")):
        truncate(os.path.join(tree, "cat", name))
    with pytest.raises(DataError, match="100 images in a row cannot be read"):
        next(iter(train_loader(ImageFolder(tree), 2, 0, on_bad_file="skip")))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_images_of_different_sizes_are_an_error_that_says_what_to_do(tmp_path, num_workers):
    class_tree(tmp_path, {"cat": 3})
    class_tree(tmp_path, {"dog": 3}, width=50)
    with train_loader(ImageFolder(str(tmp_path)), 6, num_workers) as loader:
        batches = iter(loader)
        with pytest.raises(DataError, match=r"differ in size.*\[3, 30, .0\].*Resize"):
            list(batches)


def test_a_transform_that_does_not_fit_the_images_is_reported_from_a_worker():
    with train_loader(Arange(transforms=[_FitsFirst()]), 4, 1) as loader, pytest.raises(DataError, match="RandomCrop"):
        list(loader)


class _FitsFirst(RandomCrop):
    """Runs in the process that asks for the layout and fails in a worker."""

    def __init__(self):
        super().__init__(8)
        self._pid = os.getpid()

    def __call__(self, image, rng):
        return super().__call__(image if os.getpid() == self._pid else image.resize((4, 4)), rng)


class _Buggy:
    def __init__(self):
        self.pid = os.getpid()

    def __call__(self, image, rng):
        return image if os.getpid() == self.pid else undefined_name  # noqa: F821


def test_a_bug_in_a_transform_is_reported_with_its_place():
    loader = train_loader(Arange(transforms=[_Buggy()]), 4, 1)
    with pytest.raises(RuntimeError, match=r"(?s)data worker failed on samples.*undefined_name"):
        list(loader)


class _Slow:
    def __call__(self, image, rng):
        time.sleep(0.02)
        return image


def test_a_killed_worker_is_an_error_and_not_a_hang_and_the_loader_recovers():
    loader = train_loader(Arange(200, transforms=[_Slow()]), 10, 2)
    batches = iter(loader)
    next(batches)
    os.kill(loader._pool._processes[1].pid, signal.SIGKILL)
    begin = time.time()
    with pytest.raises(DataError, match=r"data worker .* was killed by SIGKILL.*memory"):
        list(batches)
    assert time.time() - begin < 5
    assert len(next(iter(loader))["index"]) == 10
    loader.close()


def test_workers_leave_signals_to_their_parent():
    with train_loader(Arange(60, transforms=[_Slow()]), 10, 2) as loader:
        batches = iter(loader)
        next(batches)
        for process in loader._pool._processes:
            os.kill(process.pid, signal.SIGTERM)
            os.kill(process.pid, signal.SIGINT)
        assert len(list(batches)) == 5


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_end_with_close_and_with_the_loader():
    for end in (lambda loader: loader.close(), lambda loader: None):
        loader = train_loader(Arange(), 4, 2)
        batches = iter(loader)
        next(batches)
        pids = [process.pid for process in loader._pool._processes]
        assert all(alive(pid) for pid in pids)
        end(loader)
        del loader, batches
        gc.collect()
        assert not any(alive(pid) for pid in pids)


_PARENT = """
from passl.data.loader import train_loader
from tests.data.makers import Arange
loader = train_loader(Arange(), 4, 2)
batches = iter(loader)
next(batches)
print(*[process.pid for process in loader._pool._processes], flush=True)
input()
"""


@pytest.mark.slow
@pytest.mark.parametrize("killed", [True, False])
def test_workers_end_with_their_parent(killed):
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2 and all(alive(pid) for pid in pids)
        if killed:
            parent.kill()
        else:
            parent.stdin.close()
        parent.wait(5)
    deadline = time.time() + 5
    while any(alive(pid) for pid in pids) and time.time() < deadline:
        time.sleep(0.1)
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_an_epoch_given_up_half_way_does_not_disturb_the_next(num_workers):
    dataset = Arange(60)
    with train_loader(dataset, 4, num_workers, seed=1) as loader:
        old = loader.iter_epoch(0)
        next(old)
        assert_equal(list(loader.iter_epoch(1)), list(train_loader(dataset, 4, 0, seed=1).iter_epoch(1)))
        with pytest.raises(RuntimeError, match="another one was started"):
            next(old)


def test_batches_keep_their_values_while_later_ones_are_made():
    dataset = Arange(40)
    with train_loader(dataset, 4, 2, shuffle=False) as loader:
        kept = list(loader)
    assert [batch["image"].numpy()[0, 0, 0, 0] for batch in kept] == list(range(0, 40, 4))


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_arrays_travel_over_the_pipe_where_memory_is_not_shared(tree, monkeypatch, start):
    context = multiprocessing.get_context(start)
    monkeypatch.setattr(worker, "CAN_FORK", False)
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: context)
    truncate(os.path.join(tree, "cat", "cat3.jpg"))
    dataset = ImageFolder(tree, [RandomResizedCrop(8)])
    with Loader(dataset, EvalSampler(13, 4), num_workers=2, on_bad_file="skip") as loader:
        got = list(loader)
        assert loader._pool.slots is None and len(loader.bad_files) == 1
    assert_equal(got, list(Loader(dataset, EvalSampler(13, 4), on_bad_file="skip")))


def test_a_data_set_with_getitem_only_is_enough():
    class Plain:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return {"image": np.full((3, 2, 2), index, np.uint8), "index": index, "mask": np.ones(5, bool)}

    batch = next(iter(train_loader(Plain(), 4, 0, shuffle=False)))
    assert batch["mask"].shape == [4, 5] and "label" not in batch


def test_number_of_workers(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert resolve_num_workers("auto") == 7 and resolve_num_workers(3) == 3
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "4")
    assert resolve_num_workers("auto") == 1
    monkeypatch.setenv("PADDLE_LOCAL_SIZE", "2")  # two machines
    assert resolve_num_workers("auto") == 3
    with pytest.raises(DataError, match="num_workers='many'"):
        resolve_num_workers("many")


def test_unknown_policy_is_refused():
    with pytest.raises(DataError, match="on_bad_file='ignore', expected 'fail' or 'skip'"):
        train_loader(Arange(), 4, on_bad_file="ignore")
