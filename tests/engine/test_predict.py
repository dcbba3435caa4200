# SPDX-License-Identifier: Apache-2.0
"""Predictions are the model's, image by image, for any batch size."""

from pathlib import Path

import numpy as np
import paddle
import pytest
from paddle import nn
from PIL import Image

from passl.engine.predict import Prediction, class_names, find_images, predict
from passl.methods import Classifier, build_method
from passl.modeling.backbones import build_backbone
from passl.modeling.heads import build_head
from passl.modeling.model import Model
from passl.utils.errors import ConfigError, DataError

CROP = [{"name": "Resize", "size": 40}, {"name": "CenterCrop", "size": 32}]
NORMALIZE = [{"name": "Normalize", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.2]}]


class ChannelMeans(nn.Layer):
    """Logits of three classes, the means of the channels; remembers the sizes of its batches."""

    def __init__(self, output=lambda logits: logits):
        super().__init__()
        self.output, self.batches = output, []
        self.norm = nn.BatchNorm1D(3)

    def forward(self, images):
        assert not self.training and not self.norm.training and not paddle.is_grad_enabled()
        self.batches.append(len(images))
        return self.output(3 * images.mean([2, 3]))


@pytest.fixture
def paths(tmp_path):
    """Seven images of 32 x 32 pixels and more, of different sizes."""
    rng = np.random.default_rng(0)
    files = [tmp_path / f"{i}.png" for i in range(7)]
    for i, file in enumerate(files):
        pixels = rng.integers(0, 150, [40 + i, 44, 3]) + rng.integers(0, 100, [1, 1, 3])
        Image.fromarray(pixels.astype("uint8")).save(file)
    return list(map(str, files))


def by_hand(path):
    """The probabilities that ``ChannelMeans`` gives an image."""
    image = Image.open(path)
    short = min(image.size)
    image = image.resize((40 * image.width // short, 40 * image.height // short), Image.Resampling.BILINEAR)
    left, top = round((image.width - 32) / 2), round((image.height - 32) / 2)
    pixels = np.asarray(image.crop((left, top, left + 32, top + 32))) / 255.0
    logits = 3 * ((pixels - [0.5, 0.4, 0.3]) / 0.2).mean((0, 1))
    return np.exp(logits) / np.exp(logits).sum()


def assert_by_hand(predictions, paths, topk=3):
    assert [image.path for image in predictions] == paths
    for image in predictions:
        expected = by_hand(image.path)
        order = np.argsort(-expected)[:topk]
        assert image.classes == order.tolist() and image.error is None
        assert image.probabilities == pytest.approx(expected[order], abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_predictions_are_the_models_for_any_batch_size(paths, batch_size):
    model = ChannelMeans()
    assert_by_hand(list(predict(model, paths, CROP, NORMALIZE, 2, batch_size)), paths, 2)
    assert model.batches == {1: [1] * 7, 3: [3, 3, 1]}.get(batch_size, [7])


def test_images_are_read_no_earlier_than_their_batch(paths):
    model = ChannelMeans()
    images = predict(model, paths, CROP, NORMALIZE, 1, 2)
    assert model.batches == []
    next(images)
    assert model.batches == [2] and paddle.is_grad_enabled()


def test_more_classes_than_the_model_has_are_all_of_them(paths):
    assert_by_hand(list(predict(ChannelMeans(), paths, CROP, NORMALIZE, 10)), paths, 3)


def test_equal_logits_are_taken_in_the_order_of_the_classes(paths):
    ties = np.arange(60) % 3 == 0
    model = ChannelMeans(lambda logits: paddle.to_tensor(ties.astype("float32")).tile([len(logits), 1]))
    (image, *_) = predict(model, paths, CROP, NORMALIZE, 60)
    assert image.classes == [*np.flatnonzero(ties), *np.flatnonzero(~ties)]


def test_unreadable_images_keep_their_place_and_the_others_their_predictions(paths, tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.jpg").write_text("no image")
    bad = {3: tmp_path / "empty.png", 4: tmp_path / "text.jpg", 8: tmp_path / "gone.png"}
    files = list(paths)
    for place, path in bad.items():
        files.insert(place, str(path))
    found = list(predict(ChannelMeans(), files, CROP, NORMALIZE, batch_size=3))
    assert [image.path for image in found] == files
    errors = {i: image.error for i, image in enumerate(found) if image.error}
    assert errors.keys() == bad.keys() and "empty" in errors[3] and "does not exist" in errors[8]
    assert found[3] == Prediction(files[3], [], [], errors[3])
    assert_by_hand([image for image in found if not image.error], paths)


def test_only_unreadable_images_are_no_error(tmp_path):
    model = ChannelMeans()
    found = list(predict(model, [str(tmp_path / "a.png")] * 2, CROP, NORMALIZE))
    assert [bool(image.error) for image in found] == [True, True] and model.batches == []


def test_no_images_give_no_predictions():
    assert list(predict(ChannelMeans(), [], CROP, NORMALIZE)) == []


def test_a_mapping_with_logits_is_as_good(paths):
    model = ChannelMeans(lambda logits: {"features": logits + 1, "logits": logits})
    assert_by_hand(list(predict(model, paths, CROP, NORMALIZE)), paths)


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (lambda logits: {"features": logits}, "gives features, but no 'logits'"),
        (lambda logits: (logits, logits), "gives a tuple, expected logits"),
        (lambda logits: logits.unsqueeze(1), r"gives the shape \[7, 1, 3\], expected logits"),
    ],
)
def test_other_outputs_are_an_error(paths, output, says):
    with pytest.raises(ConfigError, match=says):
        list(predict(ChannelMeans(output), paths, CROP, NORMALIZE))


def distilled():
    config = {"name": "ViT", "img_size": 32, "patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 1}
    backbone = build_backbone({**config, "distilled": True})
    return backbone, build_head({"name": "DistilledClsHead", "in_dim": 8, "num_classes": 4, "init_std": 1.0})


@pytest.mark.parametrize("kind", [Model, Classifier])
def test_a_distilled_model_answers_with_the_mean_of_both_heads_and_stays_in_training(paths, kind):
    model = kind(*distilled())
    model.train()
    (image, *_) = predict(model, paths, CROP, NORMALIZE, topk=4)
    assert model.training and model.head.training
    model.eval()
    picture = np.asarray(Image.open(paths[0]))[4:36, 6:38].transpose(2, 0, 1) / 255.0
    batch = (picture - np.reshape([0.5, 0.4, 0.3], [3, 1, 1])) / 0.2
    tokens = model.architecture(paddle.to_tensor(batch[None].astype("float32")))
    logits = (model.head.fc(tokens[:, 0]) + model.head.fc_dist(tokens[:, 1])).numpy()[0] / 2
    expected = np.exp(logits) / np.exp(logits).sum()
    assert image.classes == np.argsort(-expected).tolist()
    assert image.probabilities == pytest.approx(np.sort(expected)[::-1], abs=1e-5)


def test_a_model_without_classes_is_an_error(paths):
    backbone, head = distilled()
    head.reset(0)
    with pytest.raises(ConfigError, match="Model has no classes"):
        predict(Model(backbone, head), paths, CROP, NORMALIZE)
    architecture = {"name": "StridedCNN", "img_size": 16, "widths": [4]}
    projector = {"name": "MLPHead", "in_dim": 256, "hidden_dims": [], "out_dim": 3}
    config = {"name": "SimCLR", "architecture": architecture, "projector": projector, "loss": {"name": "NTXent"}}
    method = build_method(config)
    with pytest.raises(ConfigError, match="SimCLR has no classes"):
        predict(method, paths, CROP, NORMALIZE)


def test_settings_without_meaning_are_errors(paths):
    for setting in ({"topk": 0}, {"batch_size": 0}):
        with pytest.raises(ConfigError, match=f"{next(iter(setting))} is 0, expected at least 1"):
            predict(ChannelMeans(), paths, CROP, NORMALIZE, **setting)
    views = [{"name": "Views", "views": [CROP, CROP]}]
    with pytest.raises(ConfigError, match="several views"):
        predict(ChannelMeans(), paths, views, NORMALIZE)


def test_images_of_several_sizes_are_an_error_that_names_them(paths):
    with pytest.raises(DataError, match=r"0\.png has 40x44, .*6\.png has 46x44; end the transforms with a CenterCrop"):
        list(predict(ChannelMeans(), paths, [], NORMALIZE))


def test_logits_that_are_not_finite_are_an_error_that_names_the_image(paths):
    def spoil(logits):
        return paddle.where(paddle.arange(7).unsqueeze(1) == 2, paddle.full_like(logits, float("nan")), logits)

    with pytest.raises(DataError, match=r"the logits of .*2\.png are not finite"):
        list(predict(ChannelMeans(spoil), paths, CROP, NORMALIZE))


def test_folders_stand_for_the_images_below_them(tmp_path):
    for name in ("b/2.jpg", "b/deep/1.PNG", "b/notes.txt", "a.png", "c/.hidden.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    b, single = tmp_path / "b", tmp_path / "gone.xyz"
    assert find_images([single, b]) == [str(single), str(b / "2.jpg"), str(b / "deep" / "1.PNG")]
    with pytest.raises(DataError, match=r"no images below .*c; expected files that end in \.jpg"):
        find_images([b, tmp_path / "c"])


def test_names_come_from_the_file_or_the_training_or_are_numbers(tmp_path):
    file = Path(tmp_path / "labels.txt")
    file.write_text("crane\nthe bird: crane \n鹤\n\n", encoding="utf-8")
    assert class_names(3, str(file), ["x", "y", "z"]) == ["crane", "the bird: crane", "鹤"]
    assert class_names(3, None, ["x", "y", "z"]) == ["x", "y", "z"]
    assert class_names(4, None, ["x", "y"]) == ["x", "y", "2", "3"]
    assert class_names(2) == class_names(2, None, []) == ["0", "1"]


def test_another_number_of_names_is_an_error(tmp_path):
    file = tmp_path / "labels.txt"
    file.write_text("a\nb\n")
    for count in (1, 3):
        with pytest.raises(DataError, match=f"have 2 lines, but the model has {count} classes"):
            class_names(count, str(file))
    with pytest.raises(DataError, match="cannot read the labels"):
        class_names(2, str(tmp_path / "gone.txt"))
