# SPDX-License-Identifier: Apache-2.0
import itertools

import pytest

from passl.data.samplers import EpochSampler, EvalSampler
from passl.utils.errors import DataError


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("drop_last", [True, False])
def test_processes_together_see_the_global_batches_of_one_process(world_size, drop_last):
    one = list(EpochSampler(54, 8, seed=5, drop_last=drop_last).batches(epoch=3))
    parts = [
        list(EpochSampler(54, 8 // world_size, world_size, rank, 5, drop_last=drop_last).batches(epoch=3))
        for rank in range(world_size)
    ]
    joined = [list(itertools.chain(*shares)) for shares in zip(*parts)]
    assert joined[:6] == one[:6]
    if not drop_last:  # six samples are left: four processes take one each
        assert joined[6] == one[6][: 6 - 6 % world_size]


def test_an_epoch_visits_every_image_once_and_the_next_one_in_another_order():
    sampler = EpochSampler(23, 4, seed=1, drop_last=False)
    epochs = [[index for batch in sampler.batches(epoch) for _, index in batch] for epoch in (0, 1)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(23))
    assert epochs[0] != epochs[1]
    assert [len(batch) for batch in sampler.batches(0)] == [4] * 5 + [3] and len(sampler) == 6


def test_drop_last_leaves_out_the_rest():
    assert [len(batch) for batch in EpochSampler(23, 4).batches(0)] == [4] * 5


def test_an_epoch_can_start_at_any_batch():
    sampler = EpochSampler(40, 4, world_size=2, rank=1, seed=2)
    whole = list(sampler.batches(7))
    assert all(list(sampler.batches(7, start)) == whole[start:] for start in range(len(sampler) + 1))


def test_positions_count_the_epoch_over_all_processes():
    positions = [p for rank in (0, 1) for batch in EpochSampler(16, 4, 2, rank).batches(0) for p, _ in batch]
    assert sorted(positions) == list(range(16))


def test_without_shuffling_the_order_is_that_of_the_data_set():
    assert next(EpochSampler(16, 4, shuffle=False).batches(9)) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_a_data_set_smaller_than_a_batch_is_an_error_that_names_the_keys():
    with pytest.raises(DataError, match=r"60 images.*takes 64 \(batch_size 32 x 2 processes\).*drop_last: false"):
        EpochSampler(60, 32, world_size=2)
    assert len(EpochSampler(60, 32, world_size=2, drop_last=False)) == 1


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_evaluation_counts_every_image_exactly_once(batch_size, world_size):
    samplers = [EvalSampler(50, batch_size, world_size, rank) for rank in range(world_size)]
    batches = [list(sampler.batches()) for sampler in samplers]
    assert sorted(index for part in batches for batch in part for _, index in batch) == list(range(50))
    assert [len(part) for part in batches] == [len(sampler) for sampler in samplers]


def test_a_batch_size_of_zero_is_refused():
    with pytest.raises(DataError, match="batch_size=0"):
        EvalSampler(5, 0)
