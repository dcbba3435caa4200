# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import paddle
import pytest

from passl.modeling.backbones.regnet import RegNetBlock, RegNetY, stage_plan

SMALL = {"depth": 4, "initial_width": 8, "slope": 8, "quantization": 2, "group_width": 8}


@pytest.mark.parametrize(
    ("numbers", "plan"),
    [
        ((13, 24, 36.44, 2.49, 8), [(24, 1), (56, 1), (152, 4), (368, 7)]),  # RegNetY-200MF
        ((27, 48, 20.71, 2.65, 24), [(48, 2), (120, 6), (336, 17), (888, 2)]),  # RegNetY-1.6GF
        ((18, 200, 106.23, 2.48, 112), [(224, 2), (448, 4), (1232, 11), (3024, 1)]),  # RegNetY-16GF
    ],
)
def test_five_numbers_give_the_paper_s_stages(numbers, plan):
    assert stage_plan(*numbers) == plan


def test_groups_are_never_wider_than_a_stage():
    assert stage_plan(2, 16, 0, 2, 64) == [(16, 2)]


@pytest.mark.parametrize("wrong", [{"initial_width": 12}, {"slope": -1}, {"quantization": 1}])
def test_numbers_outside_the_design_space_are_refused(wrong):
    with pytest.raises(ValueError, match=r"initial_width .* slope .* quantization"):
        RegNetY(**{**SMALL, **wrong})


def test_the_width_of_the_excitation_follows_the_block_s_input():
    assert RegNetBlock(32, 48, 2, 24, 0.25, 0.0).se.fc1.weight.shape == [8, 48, 1, 1]


def test_every_stage_halves_the_map():
    maps = RegNetY(**SMALL).forward_intermediates(paddle.randn([1, 3, 64, 32]), range(3))
    assert [m.shape for m in maps] == [[1, 8, 16, 8], [1, 16, 8, 4], [1, 32, 4, 2]]


def test_zero_init_residual_makes_blocks_identities():
    model = RegNetY(**SMALL, zero_init_residual=True)
    x = paddle.rand([2, 32, 4, 4])
    assert (model.s3.b2(x) == x).all()


def test_drop_path_rises_over_the_blocks_of_all_stages():
    model = RegNetY(**SMALL, drop_path_rate=0.3)
    blocks = [block for stage in (model.s1, model.s2, model.s3) for block in stage]
    assert [block.drop_path.drop_prob for block in blocks] == pytest.approx([0.0, 0.1, 0.2, 0.3])
