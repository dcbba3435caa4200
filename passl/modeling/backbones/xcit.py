# SPDX-License-Identifier: Apache-2.0
"""XCiT: attention between channels instead of tokens, at a cost that is linear in the number of tokens.

Paper: XCiT: Cross-Covariance Image Transformers, NeurIPS 2021, https://arxiv.org/abs/2106.09681

State names are timm's.
"""

from __future__ import annotations

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from passl.modeling.layers import ClassAttention, DropPath, Linear, Mlp, as_map, as_tokens, pair, prepend
from passl.modeling.layers.attention import head_width
from passl.modeling.layers.init import init_torch_conv, init_vit, trunc_normal_
from passl.modeling.layers.intermediates import block_indices
from passl.utils.registry import BACKBONES

from .base import TokenBackbone


class ConvPatchEmbed(nn.Layer):
    """Patches by 3x3 convolutions of stride 2 with BatchNorm, GELU between them; each doubles the width.

    Args:
        img_size: height and width in pixels that ``num_patches`` counts for; other sizes are taken too.
        patch_size: side of a patch in pixels, a power of two.
        in_chans: input channels.
        embed_dim: token width D.
    Shape: [B, C, H, W] -> [B, D, h, w].
    """

    def __init__(self, img_size, patch_size, in_chans, embed_dim):
        super().__init__()
        num_convs = int(patch_size).bit_length() - 1
        if num_convs < 1 or 2**num_convs != patch_size:
            raise ValueError(f"patch_size must be a power of two, 2 or more, got {patch_size}")
        if embed_dim % 2 ** (num_convs - 1):
            raise ValueError(f"embed_dim must be divisible by {2 ** (num_convs - 1)}, got {embed_dim}")
        height, width = pair(img_size)
        if height % patch_size or width % patch_size:
            raise ValueError(f"img_size {(height, width)} must be divisible by patch_size {patch_size}")
        self.grid_size = (height // patch_size, width // patch_size)
        self.num_patches = self.grid_size[0] * self.grid_size[1]
        widths = [in_chans, *(embed_dim // 2**i for i in reversed(range(num_convs)))]
        layers = []
        for before, after in zip(widths, widths[1:]):
            conv = nn.Conv2D(before, after, 3, stride=2, padding=1, bias_attr=False)
            layers += [nn.Sequential(conv, nn.BatchNorm2D(after)), nn.GELU()]
        self.proj = nn.Sequential(*layers[:-1])

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        return self.proj(images)


class FourierPositions(nn.Layer):
    """Sines and cosines of a place's row and column, projected to the tokens' width; made for any grid.

    Rows and columns count from 1 and are divided by their number, times 2 pi: the positions stretch with the image.

    Args:
        dim: token width D.
        hidden_dim: number of sines and cosines for each axis.
        temperature: base of the progression of frequencies.
    Shape: (h, w) -> [1, D, h, w].
    """

    def __init__(self, dim, hidden_dim=32, temperature=10000.0):
        super().__init__()
        self.hidden_dim, self.temperature = hidden_dim, temperature
        self._epsilon = 1e-6  # added to the number of rows and columns
        self.token_projection = nn.Conv2D(2 * hidden_dim, dim, 1)

    def forward(self, grid: tuple[int, int]) -> paddle.Tensor:
        rows, columns = grid
        y = self._encode(rows).unsqueeze(1).expand([rows, columns, self.hidden_dim])
        x = self._encode(columns).unsqueeze(0).expand([rows, columns, self.hidden_dim])
        return self.token_projection(paddle.concat([y, x], axis=-1).transpose([2, 0, 1]).unsqueeze(0))

    def _encode(self, length):
        """[length, hidden_dim], sine and cosine of each frequency side by side."""
        place = paddle.arange(1, length + 1, dtype="float32") * (2 * math.pi / (length + self._epsilon))
        exponent = paddle.arange(0, self.hidden_dim, 2, dtype="float32") / self.hidden_dim
        angle = place.unsqueeze(1) * paddle.exp(exponent * -math.log(self.temperature))
        return paddle.stack([angle.sin(), angle.cos()], axis=-1).flatten(1)


class XCA(nn.Layer):
    """Cross-covariance attention: softmax(t k^T q) between the channels of a head (eq. 1 of the paper).

    Queries and keys have unit length along the tokens, so that a d x d map holds their cosines.

    Args:
        dim: token width D, divisible by ``num_heads``.
        num_heads: number of heads, each with a learned temperature t.
        qkv_bias: whether the joint q, k, v projection has a bias.
        attn_drop: dropout on the attention weights, in [0, 1).
        proj_drop: dropout on the output, in [0, 1).
    Shape: [B, N, D] -> [B, N, D].
    """

    def __init__(self, dim, num_heads, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_width(dim, num_heads)
        self.temperature = self.create_parameter([num_heads, 1, 1], default_initializer=nn.initializer.Constant(1.0))
        self.qkv = Linear(dim, 3 * dim, bias_attr=None if qkv_bias else False)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        qkv = self.qkv(x).reshape([-1, x.shape[1], 3, self.num_heads, self.head_dim])
        q, k, v = qkv.transpose([2, 0, 3, 4, 1]).unbind(0)  # [B, H, d, N] each
        cosines = paddle.matmul(F.normalize(q, axis=-1), F.normalize(k, axis=-1), transpose_y=True)  # [B, H, d, d]
        attn = self.attn_drop(F.softmax(cosines * self.temperature, axis=-1))
        x = paddle.matmul(attn, v).transpose([0, 3, 1, 2]).flatten(2)  # [B, N, D]
        return self.proj_drop(self.proj(x))


class LocalPatchInteraction(nn.Layer):
    """Two 3x3 convolutions of each channel by itself, GELU and BatchNorm between: the only talk between tokens.

    Shape: x [B, N, D] in a grid of h * w = N -> [B, N, D].
    """

    def __init__(self, dim):
        super().__init__()
        self.conv1 = nn.Conv2D(dim, dim, 3, padding=1, groups=dim)
        self.act = nn.GELU()
        self.bn = nn.BatchNorm2D(dim)
        self.conv2 = nn.Conv2D(dim, dim, 3, padding=1, groups=dim)

    def forward(self, x: paddle.Tensor, grid: tuple[int, int]) -> paddle.Tensor:
        return as_tokens(self.conv2(self.bn(self.act(self.conv1(as_map(x, grid))))))


class XCABlock(nn.Layer):
    """Cross-covariance attention, local patch interaction, MLP: pre-norm branches with LayerScale.

    Args:
        dim, num_heads, mlp_ratio, qkv_bias, drop, attn_drop, drop_path, epsilon: see :class:`Block`.
        eta: initial LayerScale factor.
    Shape: x [B, N, D] in a grid of h * w = N -> [B, N, D].
    """

    def __init__(self, dim, num_heads, mlp_ratio, qkv_bias, drop, attn_drop, drop_path, eta, epsilon):
        super().__init__()
        initial = nn.initializer.Constant(eta)
        self.gamma1 = self.create_parameter([dim], default_initializer=initial)
        self.gamma3 = self.create_parameter([dim], default_initializer=initial)
        self.gamma2 = self.create_parameter([dim], default_initializer=initial)
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.attn = XCA(dim, num_heads, qkv_bias, attn_drop, drop)
        self.norm3 = nn.LayerNorm(dim, epsilon=epsilon)
        self.local_mp = LocalPatchInteraction(dim)
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop=drop)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: paddle.Tensor, grid: tuple[int, int]) -> paddle.Tensor:
        x = x + self.drop_path(self.gamma1 * self.attn(self.norm1(x)))
        x = x + self.drop_path(self.gamma3 * self.local_mp(self.norm3(x), grid))
        return x + self.drop_path(self.gamma2 * self.mlp(self.norm2(x)))


class ClassAttentionBlock(nn.Layer):
    """CaiT's class attention, except that the patches are changed by the norms and residuals too.

    Args:
        dim, num_heads, mlp_ratio, qkv_bias, drop, attn_drop, eta, epsilon: see :class:`XCABlock`.
        tokens_norm: whether the second norm is for all tokens, not for the class token alone.
    Shape: [B, 1 + N, D], class token first, unchanged.
    """

    def __init__(self, dim, num_heads, mlp_ratio, qkv_bias, drop, attn_drop, eta, tokens_norm, epsilon):
        super().__init__()
        initial = nn.initializer.Constant(eta)
        self.tokens_norm = tokens_norm
        self.gamma1 = self.create_parameter([dim], default_initializer=initial)
        self.gamma2 = self.create_parameter([dim], default_initializer=initial)
        self.norm1 = nn.LayerNorm(dim, epsilon=epsilon)
        self.attn = ClassAttention(dim, num_heads, qkv_bias, attn_drop, drop)
        self.norm2 = nn.LayerNorm(dim, epsilon=epsilon)
        self.mlp = Mlp(dim, int(dim * mlp_ratio), drop=drop)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        normed = self.norm1(x)
        x = x + self.gamma1 * paddle.concat([self.attn(normed), normed[:, 1:]], axis=1)
        if self.tokens_norm:
            x = self.norm2(x)
            cls_token, patches = x[:, :1], x[:, 1:]
        else:
            cls_token, patches = self.norm2(x[:, :1]), x[:, 1:]
        cls_token = cls_token + self.gamma2 * self.mlp(cls_token)  # the residual is taken after the norm
        return paddle.concat([cls_token, 2 * patches], axis=1)  # which adds the patches to themselves


@BACKBONES.register()
class XCiT(TokenBackbone):
    """Cross-Covariance Image Transformer: ``depth`` blocks on the patches, then class attention.

    No weight depends on the number of patches: images of any size are accepted.

    Args:
        img_size: height and width in pixels that ``patch_embed.num_patches`` counts for.
        patch_size: side of a patch in pixels, a power of two (16 and 8 in the paper).
        in_chans: input channels.
        embed_dim: token width D.
        depth: number of cross-covariance blocks.
        num_heads, mlp_ratio, qkv_bias, drop_rate, attn_drop_rate, epsilon: see :class:`ViT`.
        drop_path_rate: stochastic depth in [0, 1) of the cross-covariance blocks, all alike; the others have none.
        eta: initial LayerScale factor (1 for 12 blocks, 1e-5 for 24).
        tokens_norm: whether class-attention blocks norm all tokens before the MLP (all but nano).
        cls_attn_layers: number of class-attention blocks.
    Shape: images [B, C, H, W] -> [B, embed_dim].
    """

    num_prefix_tokens = 1
    block_lists = ("blocks", "cls_attn_blocks")

    def __init__(
        self, img_size=224, patch_size=16, in_chans=3, embed_dim=384, depth=12, num_heads=8, mlp_ratio=4.0,
        qkv_bias=True, drop_rate=0.0, attn_drop_rate=0.0, drop_path_rate=0.0, eta=1.0, tokens_norm=True,
        cls_attn_layers=2, epsilon=1e-6,
    ):  # fmt: skip
        super().__init__()
        self.num_features = embed_dim
        self.patch_embed = ConvPatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.cls_token = self.create_parameter([1, 1, embed_dim])
        self.pos_embed = FourierPositions(embed_dim)
        self.pos_drop = nn.Dropout(drop_rate)
        sizes = (embed_dim, num_heads, mlp_ratio, qkv_bias, drop_rate, attn_drop_rate)
        self.blocks = nn.LayerList([XCABlock(*sizes, drop_path_rate, eta, epsilon) for _ in range(depth)])
        self.cls_attn_blocks = nn.LayerList(
            [ClassAttentionBlock(*sizes, eta, tokens_norm, epsilon) for _ in range(cls_attn_layers)]
        )
        self.norm = nn.LayerNorm(embed_dim, epsilon=epsilon)

        self.apply(init_vit)
        self.apply(init_torch_conv)
        trunc_normal_(self.cls_token)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """The normed class token, [B, D]."""
        return self.forward_features(images)[:, 0]

    def forward_features(self, images: paddle.Tensor) -> paddle.Tensor:
        """Normed tokens, class token first, [B, 1 + N, D].

        There is no ``keep``: local patch interaction needs the whole grid.
        """
        x, grid = self._embed(images)
        for block in self.blocks:
            x = block(x, grid)
        x = prepend(self.cls_token, x)
        for block in self.cls_attn_blocks:
            x = block(x)
        return self.norm(x)

    def forward_intermediates(self, images: paddle.Tensor, indices) -> list[paddle.Tensor]:
        """The normed patches after the blocks ``indices`` as maps; later blocks are not run.

        Class-attention blocks change the patches, so they are numbered too, after the others
        (timm numbers the cross-covariance blocks only).

        Args:
            indices: block numbers; negative ones count from the end.
        Shape: [B, D, h, w] for each index, in the order asked for.
        """
        indices, depth = block_indices(indices, self.num_layers), len(self.blocks)
        x, grid = self._embed(images)
        maps = {}
        for i in range(max(indices) + 1):
            if i == depth:
                x = prepend(self.cls_token, x)
            x = self.blocks[i](x, grid) if i < depth else self.cls_attn_blocks[i - depth](x)
            if i in indices:
                maps[i] = as_map(self.norm(x if i < depth else x[:, 1:]), grid)
        return [maps[i] for i in indices]

    def _embed(self, images):
        """Patch tokens that enter the first block, [B, N, D], and their rows and columns."""
        maps = self.patch_embed(images)
        grid = tuple(maps.shape[2:])
        maps = maps + self.pos_embed(grid)
        return self.pos_drop(as_tokens(maps)), grid

    def no_weight_decay(self) -> set[str]:
        """Names that get no weight decay although they have more than one axis.

        The temperatures are not among them: the published training decays them.
        """
        return {"cls_token"}
