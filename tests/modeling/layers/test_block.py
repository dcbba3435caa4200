# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle

from passl.modeling.layers import Block


def randomized(**arguments):
    paddle.seed(0)
    block = Block(8, 2, **arguments)
    for parameter in block.parameters():
        parameter.set_value(paddle.randn(parameter.shape) * 0.5)
    return block


def test_block_equals_the_formula():
    block, x = randomized(init_values=0.1), paddle.randn([2, 5, 8])
    y = x + block.ls1.gamma * block.attn(block.norm1(x))
    y = y + block.ls2.gamma * block.mlp(block.norm2(y))
    assert paddle.allclose(block(x), y, atol=1e-5)


def test_few_queries_give_the_first_rows_of_all():
    block, x = randomized(), paddle.randn([2, 5, 8])
    assert paddle.allclose(block(x, num_queries=2), block(x)[:, :2], atol=1e-5)


def test_layer_scale_exists_only_when_asked_for():
    assert "ls1.gamma" in randomized(init_values=1e-5).state_dict()
    assert not [name for name in randomized().state_dict() if name.startswith("ls")]


def test_a_dropped_branch_leaves_the_sample_as_it_was():
    block = randomized(drop_path=0.9)
    x = paddle.randn([64, 5, 8])
    unchanged = (block(x) == x).flatten(1).all(1)
    assert 0 < int(unchanged.sum()) < 64
    block.eval()
    assert not bool((block(x) == x).flatten(1).all(1).any())
