# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import paddle

from passl.modeling.backbones.resmlp import Affine, ResMLP, ResMLPBlock

SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 3}


def test_a_block_is_the_equations_of_the_paper():
    block, x = ResMLPBlock(6, 4, 2.0, 0.0, 0.0, 0.5), paddle.randn([1, 4, 6])
    for affine in (block.norm1, block.norm2):
        affine.alpha.set_value(paddle.rand([1, 1, 6]))
        affine.beta.set_value(paddle.rand([1, 1, 6]))
    a, b = block.linear_tokens.weight.numpy().T, block.linear_tokens.bias.numpy()[:, None]
    z = x[0].numpy() + 0.5 * (a @ block.norm1(x)[0].numpy() + b)
    z = paddle.to_tensor(z)
    expected = z + 0.5 * block.mlp_channels(block.norm2(z)[0])
    assert np.abs((block(x)[0] - expected).numpy()).max() < 1e-5


def test_affine_layers_take_no_statistics():
    affine, x = Affine(3), paddle.randn([2, 4, 3])
    assert (affine(x) == x).all()
    assert paddle.allclose(affine(5 * x), 5 * affine(x))


def test_drop_path_is_the_same_in_every_block():
    model = ResMLP(**SMALL, drop_path_rate=0.1)
    assert [block.drop_path.drop_prob for block in model.blocks] == [0.1] * 3


def test_scales_and_offsets_get_no_weight_decay():
    names = ResMLP(**SMALL).no_weight_decay()
    assert len(names) == 2 * (2 * 3 + 1)
    assert {"norm.alpha", "norm.beta", "blocks.2.norm1.alpha"} <= names


def test_layer_scale_starts_as_asked():
    assert (ResMLP(**SMALL, init_scale=0.25).blocks[1].ls2 == 0.25).all()
