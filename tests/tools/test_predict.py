# SPDX-License-Identifier: Apache-2.0
"""tools/predict.py: classes of images from the command line."""

import json

import numpy as np
import pytest

from passl.engine.checkpoint import Checkpoint, save_checkpoint
from passl.engine.run import model_arrays
from passl.weights.save import write_safetensors_atomic
from tests.tools.tiny import CLASSES, IMAGENET, Tiny, make_card, pixels, probabilities


@pytest.fixture
def tiny(tmp_path, monkeypatch, capsys):
    return Tiny(tmp_path, monkeypatch, capsys)


def predict(tiny, *arguments, weights=None):
    """What tools/predict.py writes for the folder of images, and what it prints."""
    result = tiny.folder / "result.json"
    files = ["--weights", weights or tiny.weights, "--json", result]
    code, output, error = tiny.run("predict", tiny.folder / "images", *files, *arguments)
    assert (code, error) == (0, ""), error
    return json.loads(result.read_text()), output


def assert_predictions(tiny, found, expected, names="012", topk=3):
    """The written predictions are the ``expected`` probabilities [N, K]."""
    assert [image["path"] for image in found["images"]] == list(map(str, tiny.images))
    for image, row in zip(found["images"], expected):
        order = np.argsort(-row)[:topk]
        assert [entry["class"] for entry in image["classes"]] == order.tolist()
        assert [entry["name"] for entry in image["classes"]] == [names[k] for k in order]
        assert [entry["probability"] for entry in image["classes"]] == pytest.approx(row[order], abs=1e-5)


def by_hand(tiny, method, mean, std, resize):
    return probabilities(method, [pixels(path, resize) for path in tiny.images], mean, std)


def test_the_card_names_the_model_and_rules_the_images(tiny):
    tiny.in_catalogue()
    card = make_card(crop_fraction=0.5, norm_eps=1e-3)
    tiny.save(card)
    found, output = predict(tiny)
    expected = by_hand(tiny, tiny.method(epsilon=1e-3), card.mean, card.std, 64)
    assert_predictions(tiny, found, expected)
    assert found["card"] == card.name and found["unreadable"] == []
    first = output.split(str(tiny.images[0]))[1].splitlines()
    assert first[1] == f"  {100 * expected[0].max():6.2f} %  {expected[0].argmax()}"
    assert abs(expected - by_hand(tiny, tiny.method(), *IMAGENET, 36)).max() > 1e-2


@pytest.mark.parametrize("given", ["model", "config", "no card"])
def test_without_a_card_the_config_rules(tiny, given):
    tiny.in_catalogue()
    tiny.save(make_card(crop_fraction=0.5) if given == "no card" else None)
    arguments = {"config": ["-c", tiny.config], "no card": ["--model", "tiny", "--no-card"]}
    found, _ = predict(tiny, *arguments.get(given, ["--model", "tiny"]))
    assert_predictions(tiny, found, by_hand(tiny, tiny.method(), *IMAGENET, 36))
    assert "card" not in found


def test_batches_and_k_change_nothing_else(tiny):
    tiny.save(None)
    found, _ = predict(tiny, "-c", tiny.config, "--batch-size", 4, "--topk", 2)
    assert_predictions(tiny, found, by_hand(tiny, tiny.method(), *IMAGENET, 36), topk=2)
    assert all(len(image["classes"]) == 3 for image in predict(tiny, "-c", tiny.config, "--topk", 9)[0]["images"])


@pytest.mark.parametrize("arguments", [["-c", "tiny.yaml", "--model", "tiny"], []])
def test_exactly_one_of_model_and_config_is_needed_without_a_card(tiny, arguments):
    tiny.save(None)
    code, _, error = tiny.run("predict", tiny.images[0], "--weights", tiny.weights, *arguments)
    assert code == 2 and "give one of --model and -c" in error


def test_a_card_of_another_model_than_the_named_one_is_an_error(tiny):
    tiny.in_catalogue()
    tiny.save(make_card(model="tiny"))
    code, _, error = tiny.run("predict", tiny.images[0], "--weights", tiny.weights, "--model", "deit_tiny_patch16_224")
    assert code == 1 and "model.architecture.depth: is 12, but 1 in 'tiny'" in error


def test_names_are_those_of_the_training_that_are_kept_with_the_weights(tiny):
    method = tiny.method()
    expected = by_hand(tiny, method, *IMAGENET, 36)
    file = tiny.folder / "best.safetensors"
    write_safetensors_atomic(file, model_arrays(method), {"classes": json.dumps(CLASSES)})
    state = {"classes": [name.upper() for name in CLASSES]}
    folder = save_checkpoint(tiny.folder / "checkpoints", Checkpoint(1, model_arrays(method), {}, state), None)
    assert_predictions(tiny, predict(tiny, "-c", tiny.config, weights=file)[0], expected, CLASSES)
    found, output = predict(tiny, "-c", tiny.config, weights=folder)
    assert_predictions(tiny, found, expected, state["classes"])
    assert f" %  {state['classes'][expected[0].argmax()]}\n" in output


def test_labels_of_a_file_rule(tiny):
    tiny.save(None)
    labels = tiny.folder / "labels.txt"
    labels.write_text("x\ny\nz\n")
    found, _ = predict(tiny, "-c", tiny.config, "--labels", labels)
    assert_predictions(tiny, found, by_hand(tiny, tiny.method(), *IMAGENET, 36), "xyz")


def test_another_number_of_labels_is_an_error_before_any_image(tiny):
    tiny.save(None)
    labels = tiny.folder / "labels.txt"
    labels.write_text("x\ny\n")
    arguments = ["-c", tiny.config, "--weights", tiny.weights, "--labels", labels]
    code, output, error = tiny.run("predict", tiny.folder / "images", *arguments)
    assert code == 1 and "have 2 lines, but the model has 3 classes" in error
    assert "%  " not in output


def test_unreadable_images_are_named_and_the_others_predicted(tiny):
    tiny.save(None)
    broken = tiny.folder / "images" / "bee" / "1.png"
    broken.write_bytes(broken.read_bytes()[:300])
    missing, result = tiny.folder / "gone.png", tiny.folder / "result.json"
    arguments = ["-c", tiny.config, "--weights", tiny.weights, "--json", result, "--batch-size", 2]
    code, output, error = tiny.run("predict", missing, tiny.folder / "images", *arguments)
    assert code == 1
    assert f"{missing}: cannot be read: the file does not exist" in error and f"{broken}: cannot be read: " in error
    assert "2 of 7 images cannot be read" in error
    found = json.loads(result.read_text())
    assert [entry["path"] for entry in found["unreadable"]] == [str(missing), str(broken)]
    tiny.images.remove(broken)
    assert_predictions(tiny, found, by_hand(tiny, tiny.method(), *IMAGENET, 36))
    assert all(f"{path}\n" in output for path in tiny.images)


def test_weights_without_a_fitting_classifier_are_an_error(tiny):
    tiny.save(None)
    arguments = ["-c", tiny.config, "-o", "model.head.num_classes=5", "--weights", tiny.weights]
    code, _, error = tiny.run("predict", tiny.images[0], *arguments)
    assert code == 1 and "has no classifier for this model: head.fc.weight (file has 16x3)" in error


def test_the_result_never_replaces_the_card(tiny):
    tiny.in_catalogue()
    tiny.save(make_card())
    card = tiny.weights.with_suffix(".json")
    code, _, error = tiny.run("predict", tiny.images[0], "--weights", tiny.weights, "--json", card)
    assert code == 1 and "is where the card of" in error and '"crop_mode"' in card.read_text()


@pytest.mark.parametrize("file", ["weights", "config", "image", "labels"])
def test_the_result_never_replaces_a_file_that_is_read(tiny, file):
    tiny.save(None)
    labels = tiny.folder / "labels.txt"
    labels.write_text("ant\nbee\ncat\n")
    path = {"weights": tiny.weights, "config": tiny.config, "image": tiny.images[0], "labels": labels}[file]
    before = path.read_bytes()
    arguments = ["-c", tiny.config, "--weights", tiny.weights, "--labels", labels, "--json", path]
    code, output, error = tiny.run("predict", tiny.images[0], *arguments)
    assert (code, output) == (1, "") and f"{path} is read, and the result would replace it" in error
    assert path.read_bytes() == before


def test_a_result_that_cannot_be_written_is_an_error_without_a_traceback(tiny):
    tiny.save(None)
    arguments = ["predict", tiny.images[0], "-c", tiny.config, "--weights", tiny.weights, "--json"]
    code, output, error = tiny.run(*arguments, tiny.folder)
    assert (code, output) == (1, "") and f"is a folder: name a file in it, such as {tiny.folder}/result.json" in error
    code, _, error = tiny.run(*arguments, tiny.images[0] / "result.json")
    assert code == 1 and f"cannot write {tiny.images[0]}/result.json" in error
