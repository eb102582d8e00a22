"""An evaluation is right about every kind of model and of data."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

import esacl
from esacl import ContinualClassifier
from esacl.deploy.graph import write_onnx
from esacl.deploy.opening import open_answering, open_model
from esacl.deploy.weights import write_export
from esacl.errors import CheckpointError, ConfigError, InputError
from tests.builders import stream
from tests.deploy.models import NAMES, classifier, features, finished, pictures, saved, write_pictures
from tests.estimator.samples import images


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, and images that it has not seen, some of them in the folder of another class."""
    folder = tmp_path_factory.mktemp("evaluated")
    saved(folder, epochs=2, holdout=0.2)
    for number, (image, name) in enumerate(zip(*unseen())):
        (folder / "pictures" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / "pictures" / name / f"{number}.png")
    return folder


def unseen():
    """Nine images of each class, of which every fourth is named wrongly."""
    x, y = pictures(range(5), each=9, seed=7)
    y[::4] = np.roll(y, 9)[::4]
    return x, y


def of(place):
    return esacl.evaluate(place / "model.esacl", place / "pictures")


def test_it_is_what_scikit_learn_makes_of_the_answers(place):
    found, model = of(place), ContinualClassifier.load(place / "model.esacl")
    x, y = unseen()
    answers = model.predict(x)
    assert found.confusion == tuple(map(tuple, confusion_matrix(y, answers, labels=NAMES).tolist()))
    precision, recall, _, count = precision_recall_fscore_support(y, answers, labels=NAMES, zero_division=np.nan)
    assert [score.recall for score in found.scores] == pytest.approx(recall.tolist())
    assert [score.count for score in found.scores] == count.tolist()
    known = [(score.precision, wanted) for score, wanted in zip(found.scores, precision) if score.precision is not None]
    assert [one for one, _ in known] == pytest.approx([other for _, other in known])
    assert found.accuracy == pytest.approx(model.score(x, y))
    assert 0 < found.accuracy < 1
    tasks = [np.isin(y, NAMES[:3]), np.isin(y, NAMES[3:])]
    assert [task.class_il for task in found.tasks] == pytest.approx([model.score(x[own], y[own]) for own in tasks])
    chances = model.predict_proba(x[tasks[0]])[:, :3]
    assert found.tasks[0].task_il == pytest.approx((NAMES[chances.argmax(1)] == y[tasks[0]]).mean())


def test_arrays_folders_and_objects_give_the_same(place):
    model = ContinualClassifier.load(place / "model.esacl")
    x, y = unseen()
    for other in (esacl.evaluate(model, (x, y)), esacl.evaluate(model, (np.moveaxis(x, 1, 3), list(y)))):
        assert other.confusion == of(place).confusion
        assert other.calibration.error == pytest.approx(of(place).calibration.error)
    table = classifier(lambda classes: features(classes), epochs=2)
    wide, labels = features(range(5), seed=3)
    assert esacl.evaluate(table, (wide, labels)).accuracy == pytest.approx(table.score(wide, labels))


def test_exports_and_graphs_are_as_good_as_their_model(place, tmp_path):
    pytest.importorskip("onnxruntime")
    model = open_model(place / "model.esacl")
    write_export(tmp_path / "small", model, sparse=True)
    write_onnx(tmp_path / "m.onnx", model)
    for name in ("small", "m.onnx"):
        found = esacl.evaluate(tmp_path / name, place / "pictures")
        assert found.confusion == of(place).confusion
        assert found.calibration.fitted_on == "every second example of each class", "it holds no examples"
        assert found.calibration.error == pytest.approx(of(place).calibration.error, abs=1e-4)
    told = open_answering(tmp_path / "m.onnx").for_task(2)
    assert told.classes == ("dog", "emu")
    batch = torch.rand(3, 3, 8, 8)
    assert torch.allclose(told.answering()(batch)[0], model.for_task(2).answering()(batch)[0], atol=1e-5)


def test_a_run_is_judged_on_the_test_split_of_its_stream(tmp_path):
    whole = stream()
    run = finished(tmp_path, "er", whole)
    results = esacl.resume(run, stream=whole)
    found = esacl.evaluate(run, whole)
    assert [task.class_il for task in found.tasks] == pytest.approx(results.matrix["class_il"][-1])
    assert [task.task_il for task in found.tasks] == pytest.approx(results.matrix["task_il"][-1])
    told = esacl.evaluate(finished(tmp_path, "packnet", whole), whole, task=2)
    assert len(told.classes) == 2
    assert sum(told.unknown.values()) == sum(len(task.test) for task in whole.tasks) - told.examples
    with pytest.raises(ConfigError, match="must be told the task"):
        esacl.evaluate(tmp_path / "packnet", whole)


def test_tasks_that_share_classes_are_told_apart_by_the_stream(tmp_path):
    config = esacl.Config.of(method="er", stream="rotated-digits", epochs=1, width=16, limit_per_class=10)
    results = esacl.run(config, tmp_path / "run")
    found = esacl.evaluate(tmp_path / "run", esacl.open_stream(config.stream))
    assert [task.class_il for task in found.tasks] == pytest.approx(results.matrix["class_il"][-1])


def test_the_most_confident_mistakes_come_first_with_what_the_model_saw(place):
    found = of(place)
    shares = [mistake.probability for mistake in found.mistakes]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == min(24, found.examples - found.right)
    first = found.mistakes[0]
    assert first.truth in first.name
    assert first.truth != first.answer
    assert torch.equal(first.pixels, torch.from_numpy(np.array(Image.open(first.name))).permute(2, 0, 1))


def test_what_is_left_out_is_counted_apart(place, tmp_path):
    tree = shutil.copytree(place / "pictures", tmp_path / "tree")
    shutil.copytree(tree / "ant", tree / "fox")
    (tree / "bee" / "broken.png").write_bytes(b"no image")
    found = esacl.evaluate(place / "model.esacl", tree)
    assert found.unknown == {"fox": len(list((tree / "fox").iterdir()))}
    assert found.unreadable == {str(tree / "bee" / "broken.png"): "not a readable image"}
    assert found.confusion == of(place).confusion
    shutil.move(tree / "fox", tmp_path / "others" / "fox")
    with pytest.raises(InputError, match=r"knows none of the classes .* such as 'fox'; it knows 'ant', 'bee', 'cat'"):
        esacl.evaluate(place / "model.esacl", tmp_path / "others")


def test_a_folder_with_a_test_split_is_judged_on_that(place, tmp_path):
    shutil.copytree(place / "pictures", tmp_path / "tree" / "test")
    write_pictures(tmp_path / "tree" / "train", range(2))
    assert esacl.evaluate(place / "model.esacl", tmp_path / "tree").confusion == of(place).confusion


def test_the_temperature_is_fitted_on_what_was_never_trained_on_before_the_memory(place):
    assert of(place).calibration.fitted_on == "held-out examples"
    model = classifier(method="er", epochs=1)
    assert esacl.evaluate(model, pictures(range(5), seed=7)).calibration.fitted_on == "the memory"


def test_numbers_are_matched_by_value_and_other_names_are_unknown(tmp_path):
    model = classifier(lambda classes: images(classes), epochs=3)
    folder = write_pictures(tmp_path / "new", range(3))
    for name, number in [("ant", "00"), ("bee", "1"), ("cat", "2")]:
        (folder / name).rename(folder / number)
    write_pictures(folder, range(1))
    found = esacl.evaluate(model, folder)
    assert (found.examples, found.unknown) == (12, {"ant": 4})


def test_data_of_another_kind_and_files_that_are_no_graph_are_refused(place, tmp_path):
    for x in (np.zeros((4, 3, 9, 9), np.uint8), np.zeros((4, 3, 8, 8), np.float32)):
        with pytest.raises(InputError, match="but the model reads 3×8×8 of bytes"):
            esacl.evaluate(place / "model.esacl", (x, np.array(["ant"] * 4)))
    with pytest.raises(InputError, match="one label for each"):
        esacl.evaluate(place / "model.esacl", (np.zeros((4, 3, 8, 8), np.uint8), ["ant"]))
    with pytest.raises(InputError, match="a list was given"):
        esacl.evaluate(place / "model.esacl", [1])
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(CheckpointError, match="cannot be read"):
        esacl.evaluate(tmp_path / "m.onnx", place / "pictures")
    with pytest.raises(CheckpointError, match="there is no file"):
        esacl.evaluate(tmp_path / "absent.onnx", place / "pictures")
    with pytest.raises(CheckpointError, match="run it, but what it is made of"):
        open_model(tmp_path / "m.onnx")
