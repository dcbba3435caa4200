# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from passl.modeling.backbones import ViT
from passl.weights import to_parallel, to_serial

TINY = {"img_size": 16, "patch_size": 8, "embed_dim": 12, "num_heads": 2}


def vit(**arguments):
    return ViT(**TINY, **arguments)


@pytest.mark.parametrize("num_branches", [1, 2, 3])
@pytest.mark.parametrize("init_values", [None, 1e-4])
def test_there_and_back_gives_the_same_arrays_under_the_same_names(num_branches, init_values):
    state = vit(depth=6, init_values=init_values).state_dict()
    parallel = to_parallel(state, num_branches)
    back = to_serial(parallel)
    assert back.keys() == state.keys()
    assert all(back[name] is array for name, array in state.items())


def test_the_result_is_the_state_of_the_other_model():
    serial, parallel = vit(depth=6, init_values=0.1), vit(depth=3, num_branches=2, init_values=0.1)
    rewired = to_parallel(serial.state_dict(), 2)
    assert {n: a.shape for n, a in rewired.items()} == {n: a.shape for n, a in parallel.state_dict().items()}
    assert to_serial(parallel.state_dict()).keys() == serial.state_dict().keys()


def test_neighbouring_blocks_become_branches_of_one():
    state = {f"architecture.blocks.{i}.mlp.fc1.bias": float(i) for i in range(4)}
    state["architecture.norm.weight"] = 1.0
    rewired = to_parallel(state, 2)
    assert rewired == {
        "architecture.blocks.0.ffns.0.mlp.fc1.bias": 0.0,
        "architecture.blocks.0.ffns.1.mlp.fc1.bias": 1.0,
        "architecture.blocks.1.ffns.0.mlp.fc1.bias": 2.0,
        "architecture.blocks.1.ffns.1.mlp.fc1.bias": 3.0,
        "architecture.norm.weight": 1.0,
    }


def test_an_indivisible_depth_and_foreign_names_are_explained():
    state = vit(depth=3).state_dict()
    with pytest.raises(ValueError, match="3 blocks cannot be arranged in 2 branches"):
        to_parallel(state, 2)
    with pytest.raises(ValueError, match="no blocks"):
        to_serial(state)
    with pytest.raises(ValueError, match="no blocks"):
        to_parallel({"layer1.0.conv1.weight": 1}, 2)
