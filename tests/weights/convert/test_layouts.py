# SPDX-License-Identifier: Apache-2.0
"""Each known layout, written by hand from timm's, must come back as timm's, bit for bit."""

import re

import numpy as np
import pytest

from passl.utils.errors import CheckpointError
from passl.weights.convert import normalise, to_layout
from tests.weights.convert.cases import renamed

D, HEADS, DEPTH, CLASSES = 6, 2, 3, 5


def tensors(shapes):
    return {
        n: np.random.RandomState(i).standard_normal(s).astype(np.float32) for i, (n, s) in enumerate(shapes.items())
    }


def vit(layer_scale=False, distilled=False):
    """A ViT's weights under timm's names."""
    shapes = {"cls_token": (1, 1, D), "pos_embed": (1, 10, D)}
    if distilled:
        shapes.update({"dist_token": (1, 1, D), "head_dist.weight": (CLASSES, D), "head_dist.bias": (CLASSES,)})
    shapes.update({"patch_embed.proj.weight": (D, 3, 2, 2), "patch_embed.proj.bias": (D,)})
    for i in range(DEPTH):
        linear = {"attn.qkv": (3 * D, D), "attn.proj": (D, D), "mlp.fc1": (4 * D, D), "mlp.fc2": (D, 4 * D)}
        for name, shape in linear.items():
            shapes[f"blocks.{i}.{name}.weight"], shapes[f"blocks.{i}.{name}.bias"] = shape, shape[:1]
        for k in (1, 2):
            shapes[f"blocks.{i}.norm{k}.weight"] = shapes[f"blocks.{i}.norm{k}.bias"] = (D,)
            if layer_scale:
                shapes[f"blocks.{i}.ls{k}.gamma"] = (D,)
    shapes.update({"norm.weight": (D,), "norm.bias": (D,), "head.weight": (CLASSES, D), "head.bias": (CLASSES,)})
    return tensors(shapes)


def split_qkv(arrays, names):
    """Three entries for each joint q, k, v; ``names`` are templates of (block, kind)."""
    result = {}
    for name, array in arrays.items():
        match = re.fullmatch(r"blocks\.(\d+)\.attn\.qkv\.(\w+)", name)
        if match:
            result.update(zip((n.format(*match.groups()) for n in names), np.split(array, 3)))
        else:
            result[name] = array
    return result


def hugging_face(arrays, model, old):
    layer = f"{model}.encoder.layer.{{}}." if old else f"{model}.layers.{{}}."
    attention = layer + ("attention.attention.{}.{{}}" if old else "attention.{}.{{}}")
    names = ("query", "key", "value") if old else ("q_proj", "k_proj", "v_proj")
    arrays = split_qkv(arrays, [attention.format("{}", name).replace("{}.{}", "{}.{}") for name in names])
    block = layer.format(r"\1")
    output, fc1, fc2 = (
        ("attention.output.dense", "intermediate.dense", "output.dense")
        if old
        else ("attention.o_proj", "mlp.fc1", "mlp.fc2")
    )
    return renamed(
        arrays,
        [
            ("cls_token", f"{model}.embeddings.cls_token"),
            ("dist_token", f"{model}.embeddings.distillation_token"),
            ("pos_embed", f"{model}.embeddings.position_embeddings"),
            (r"patch_embed\.proj\.(.*)", rf"{model}.embeddings.patch_embeddings.projection.\1"),
            (r"blocks\.(\d+)\.attn\.proj\.(.*)", rf"{block}{output}.\2"),
            (r"blocks\.(\d+)\.norm1\.(.*)", rf"{block}layernorm_before.\2"),
            (r"blocks\.(\d+)\.norm2\.(.*)", rf"{block}layernorm_after.\2"),
            (r"blocks\.(\d+)\.mlp\.fc1\.(.*)", rf"{block}{fc1}.\2"),
            (r"blocks\.(\d+)\.mlp\.fc2\.(.*)", rf"{block}{fc2}.\2"),
            (r"norm\.(.*)", rf"{model}.layernorm.\1"),
            (r"head\.(.*)", r"cls_classifier.\1" if "dist_token" in arrays else r"classifier.\1"),
            (r"head_dist\.(.*)", r"distillation_classifier.\1"),
        ],
    )


def torchvision(arrays):
    layer = r"encoder.layers.encoder_layer_\1."
    return renamed(
        arrays,
        [
            ("cls_token", "class_token"),
            ("pos_embed", "encoder.pos_embedding"),
            (r"patch_embed\.proj\.(.*)", r"conv_proj.\1"),
            (r"blocks\.(\d+)\.attn\.qkv\.(.*)", layer + r"self_attention.in_proj_\2"),
            (r"blocks\.(\d+)\.attn\.proj\.(.*)", layer + r"self_attention.out_proj.\2"),
            (r"blocks\.(\d+)\.norm([12])\.(.*)", layer + r"ln_\2.\3"),
            (r"blocks\.(\d+)\.mlp\.fc1\.(.*)", layer + r"mlp.0.\2"),
            (r"blocks\.(\d+)\.mlp\.fc2\.(.*)", layer + r"mlp.3.\2"),
            (r"norm\.(.*)", r"encoder.ln.\1"),
            (r"head\.(.*)", r"heads.head.\1"),
        ],
    )


def google(arrays, root, attention, norm2, mlp, stacked=False):
    """The same weights as Flax keeps them: kernels [in, out], heads as an axis of their own."""
    leaf = {"weight": "kernel", "bias": "bias"}
    result = {
        f"{root}cls": arrays["cls_token"],
        f"{root}{'' if stacked else 'Transformer/posembed_input/'}pos_embedding": arrays["pos_embed"],
        f"{root}embedding/kernel": arrays["patch_embed.proj.weight"].transpose(2, 3, 1, 0),
        f"{root}embedding/bias": arrays["patch_embed.proj.bias"],
        f"{root}Transformer/encoder_norm/scale": arrays["norm.weight"],
        f"{root}Transformer/encoder_norm/bias": arrays["norm.bias"],
        f"{root}head/kernel": arrays["head.weight"].T,
        f"{root}head/bias": arrays["head.bias"],
        f"{root}pre_logits/kernel": np.zeros((D, D), np.float32),
    }
    blocks = []
    for i in range(DEPTH):
        block, ours = {}, f"blocks.{i}."
        for kind in ("weight", "bias"):
            parts = np.split(arrays[f"{ours}attn.qkv.{kind}"], 3)
            for name, part in zip(("query", "key", "value"), parts):
                shape = (D, HEADS, D // HEADS) if kind == "weight" else (HEADS, D // HEADS)
                block[f"{attention}/{name}/{leaf[kind]}"] = part.T.reshape(shape)
            for j in (1, 2):
                block[f"{mlp}/Dense_{j - 1}/{leaf[kind]}"] = arrays[f"{ours}mlp.fc{j}.{kind}"].T
                name = norm2 if j == 2 else "LayerNorm_0"
                block[f"{name}/{'scale' if kind == 'weight' else 'bias'}"] = arrays[f"{ours}norm{j}.{kind}"]
        block[f"{attention}/out/kernel"] = arrays[f"{ours}attn.proj.weight"].T.reshape(HEADS, D // HEADS, D)
        block[f"{attention}/out/bias"] = arrays[f"{ours}attn.proj.bias"]
        blocks.append(block)
    for name in blocks[0]:
        if stacked:
            result[f"{root}Transformer/encoderblock/{name}"] = np.stack([block[name] for block in blocks])
        else:
            result.update({f"{root}Transformer/encoderblock_{i}/{name}": b[name] for i, b in enumerate(blocks)})
    return result


def parallel():
    """timm's names of blocks with two branches, and the authors'."""
    timm, official = {}, {}
    for name, array in vit(layer_scale=True).items():
        match = re.fullmatch(r"blocks\.(\d+)\.(norm|attn|mlp|ls)(.*)", name)
        if not match:
            timm[name] = official[name] = array
            continue
        block, kind, rest = match.groups()
        for k in (0, 1):
            value = array + k
            if kind in ("attn", "mlp"):
                theirs, ours = (
                    f"{kind}{k or ''}{rest}",
                    f"{kind}s.{k}.attn{rest}" if kind == "attn" else f"ffns.{k}.mlp{rest}",
                )
            elif kind == "norm":
                theirs, ours = (
                    f"norm{rest[0]}{k or ''}{rest[1:]}",
                    f"{'attns' if rest[0] == '1' else 'ffns'}.{k}.norm{rest[1:]}",
                )
            else:
                theirs, ours = (
                    f"gamma_{rest[0]}{'_1' if k else ''}",
                    f"{'attns' if rest[0] == '1' else 'ffns'}.{k}.ls.gamma",
                )
            timm[f"blocks.{block}.{ours}"], official[f"blocks.{block}.{theirs}"] = value, value
    return timm, official


def resnet(depths, convs):
    """A ResNet's weights under timm's names, with the counters of BatchNorm."""
    shapes = {}

    def norm(name, width):
        shapes.update({f"{name}.{k}": (width,) for k in ("weight", "bias", "running_mean", "running_var")})
        shapes[f"{name}.num_batches_tracked"] = ()

    shapes["conv1.weight"] = (4, 3, 7, 7)
    norm("bn1", 4)
    for stage, depth in enumerate(depths):
        for i in range(depth):
            for k in range(1, convs + 1):
                shapes[f"layer{stage + 1}.{i}.conv{k}.weight"] = (4, 4, 3, 3)
                norm(f"layer{stage + 1}.{i}.bn{k}", 4)
            if i == 0 and stage:
                shapes[f"layer{stage + 1}.{i}.downsample.0.weight"] = (4, 4, 1, 1)
                norm(f"layer{stage + 1}.{i}.downsample.1", 4)
    shapes.update({"fc.weight": (CLASSES, 4), "fc.bias": (CLASSES,)})
    return tensors(shapes)


def hugging_face_resnet(arrays):
    def name(ours):
        ours = re.sub(r"^conv1\.", "resnet.embedder.embedder.convolution.", ours)
        ours = re.sub(r"^bn1\.", "resnet.embedder.embedder.normalization.", ours)
        ours = re.sub(r"^layer(\d)\.", lambda m: f"resnet.encoder.stages.{int(m[1]) - 1}.layers.", ours)
        ours = re.sub(r"\.conv(\d)\.", lambda m: f".layer.{int(m[1]) - 1}.convolution.", ours)
        ours = re.sub(r"\.bn(\d)\.", lambda m: f".layer.{int(m[1]) - 1}.normalization.", ours)
        ours = ours.replace("downsample.0.", "shortcut.convolution.").replace(
            "downsample.1.", "shortcut.normalization."
        )
        return re.sub(r"^fc\.", "classifier.1.", ours)

    return {name(ours): array for ours, array in arrays.items()}


def paddleclas_resnet(arrays, depths):
    def name(ours):
        match = re.fullmatch(r"layer(\d)\.(\d+)\.(.*)", ours)
        if match:
            block = sum(depths[: int(match[1]) - 1]) + int(match[2])
            rest = re.sub(r"conv(\d)\.", lambda m: f"conv{int(m[1]) - 1}.conv.", match[3])
            rest = re.sub(r"bn(\d)\.", lambda m: f"conv{int(m[1]) - 1}.bn.", rest)
            rest = rest.replace("downsample.0.", "short.conv.").replace("downsample.1.", "short.bn.")
            ours = f"blocks.{block}.{rest}"
        ours = re.sub(r"^conv1\.", "stem.0.conv.", re.sub(r"^bn1\.", "stem.0.bn.", ours))
        return ours.replace("running_mean", "_mean").replace("running_var", "_variance")

    return {name(ours): a.T if ours == "fc.weight" else a for ours, a in arrays.items() if "num_batches" not in ours}


def back_to_timm(normal):
    heads = ("head.fc.", "head.fc_dist.")
    return to_layout({n if n.startswith(heads) else f"architecture.{n}": a for n, a in normal.arrays.items()})


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape and found[name].dtype == array.dtype, name
        assert found[name].tobytes() == array.tobytes(), name


DEIT3 = vit(layer_scale=True)
PARALLEL, OFFICIAL_PARALLEL = parallel()
R18, R50 = resnet((2, 2, 2, 2), 2), resnet((3, 4, 6, 3), 3)
VISION_TRANSFORMER = ("", "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3")
BIG_VISION = ("params/", "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0")
CASES = {
    "timm ViT": (vit(), vit(), "timm"),
    "timm distilled": (vit(distilled=True), vit(distilled=True), "timm"),
    "timm DeiT III": (DEIT3, DEIT3, "timm"),
    "timm parallel": (PARALLEL, PARALLEL, "timm"),
    "timm ResNet": (R18, R18, "timm"),
    "official DeiT III": (renamed(DEIT3, [(r"(.*)\.ls(\d)\.gamma", r"\1.gamma_\2")]), DEIT3, "official (DeiT III)"),
    "official parallel": (OFFICIAL_PARALLEL, PARALLEL, "official (parallel ViT)"),
    "hf ViT": (hugging_face(vit(), "vit", old=True), vit(), "hf (ViT, DeiT)"),
    "hf ViT 5": (hugging_face(vit(), "vit", old=False), vit(), "hf (ViT, DeiT)"),
    "hf DeiT": (hugging_face(vit(distilled=True), "deit", old=True), vit(distilled=True), "hf (ViT, DeiT)"),
    "torchvision ViT": (torchvision(vit()), vit(), "torchvision (ViT)"),
    "google ViT": (google(vit(), *VISION_TRANSFORMER), vit(), "google (ViT)"),
    "big_vision ViT": (google(vit(), *BIG_VISION), vit(), "google (ViT)"),
    "big_vision scanned": (google(vit(), *BIG_VISION, stacked=True), vit(), "google (ViT)"),
    "hf ResNet-18": (hugging_face_resnet(R18), R18, "hf (ResNet)"),
    "hf ResNet-50": (hugging_face_resnet(R50), R50, "hf (ResNet)"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layout_is_recognised_and_gives_timms_weights_bit_for_bit(case):
    source, expected, layout = CASES[case]
    normal = normalise(source)
    assert (normal.layout, normal.prefix, normal.left_out) == (layout, "", [])
    assert_equal(back_to_timm(normal), expected)


@pytest.mark.parametrize("case", CASES)
def test_a_layout_is_recognised_behind_a_prefix_and_by_its_name(case):
    source, expected, layout = CASES[case]
    normal = normalise({f"state_dict.module.{name}": array for name, array in source.items()}, layout.split()[0])
    assert (normal.layout, normal.prefix) == (layout, "state_dict.module.")
    assert_equal(back_to_timm(normal), expected)


@pytest.mark.parametrize(
    "depths, convs", [((2, 2, 2, 2), 2), ((3, 4, 6, 3), 3), ((3, 4, 23, 3), 3), ((3, 8, 36, 3), 3)]
)
def test_paddleclas_numbers_blocks_through_and_stores_linear_weights_turned(depths, convs):
    timm = resnet(depths, convs)
    normal = normalise(paddleclas_resnet(timm, depths))
    assert normal.layout == "paddleclas (ResNet)"
    assert_equal(back_to_timm(normal), {n: a for n, a in timm.items() if "num_batches" not in n})


def test_a_paddleclas_resnet_of_unknown_depth_is_an_error():
    depths = (1, 1, 1, 1)
    with pytest.raises(CheckpointError, match="4 blocks is not known"):
        normalise(paddleclas_resnet(resnet(depths, 2), depths))


def test_paddleclas_vits_have_timms_names_but_turned_linear_weights():
    turned = {n: a.T if a.ndim == 2 else a for n, a in vit().items()}
    for layout in ("auto", "paddleclas"):
        assert_equal(back_to_timm(normalise(turned, layout)), vit())


def test_a_lost_piece_of_a_joined_tensor_is_an_error():
    source = hugging_face(vit(), "vit", old=True)
    del source["vit.encoder.layer.1.attention.attention.key.weight"]
    with pytest.raises(CheckpointError, match=r"'blocks\.1\.attn\.qkv\.weight' needs 3 pieces, the file has 2"):
        normalise(source)


def test_files_of_nothing_known_are_an_error():
    with pytest.raises(CheckpointError, match=r"no entry fits the layout 'hf'.*cls_token"):
        normalise(vit(), "hf")


def test_there_is_no_way_back_to_other_layouts():
    with pytest.raises(CheckpointError, match="'timm' or 'passl'"):
        to_layout(vit(), "google")
