"""`esacl inspect`, `predict`, `learn` and `export` as people use them."""

import json

import numpy as np
import pytest
from PIL import Image

import esacl as library
from esacl import ContinualClassifier
from esacl.cli import main
from esacl.deploy.opening import open_model
from tests.cli.commands import esacl
from tests.deploy.models import features, finished, pictures, saved, write_pictures
from tests.estimator.samples import images


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model"))


def answered(capsys, *words):
    esacl("predict", *words, "--json")
    return json.loads(capsys.readouterr().out)


def test_inspect_tells_people_and_programs_what_a_model_is(model, capsys):
    esacl("inspect", model)
    told = capsys.readouterr().out
    for words in ("esacl-der++", "5 classes of 2 tasks", "ant, bee, cat", "backbone.first.weight", "can learn more"):
        assert words in told
    esacl("inspect", model, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["density"] == pytest.approx(0.2, abs=1e-3)
    assert [task["task_il"] for task in found["tasks"]] == [None, None]


def test_predict_names_the_classes_of_files_and_folders(model, tmp_path, capsys):
    write_pictures(tmp_path, range(5))
    found = answered(capsys, model, tmp_path, "--top", "2")
    right = [each["answers"][0]["class"] == each["path"].split("/")[-2] for each in found["images"]]
    assert len(right) == 20
    assert np.mean(right) > 0.9
    assert all(len(each["answers"]) == 2 for each in found["images"])
    esacl("predict", model, tmp_path / "ant")
    told = capsys.readouterr().out
    assert "ant" in told
    assert "%" in told


def test_predict_answers_among_the_classes_of_a_task(model, tmp_path, capsys):
    write_pictures(tmp_path, range(1), each=1)
    found = answered(capsys, model, tmp_path, "--task", "2")
    assert {each["class"] for each in found["images"][0]["answers"]} == {"dog", "emu"}


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "I;16"])
def test_predict_reads_images_of_every_mode_and_size(model, tmp_path, capsys, mode):
    plain = Image.fromarray(np.full((31, 7), 0x8080, np.uint16)) if mode == "I;16" else Image.new(mode, (7, 31))
    plain.save(tmp_path / "x.tiff" if mode in ("CMYK", "I;16") else tmp_path / "x.png")
    assert len(answered(capsys, model, tmp_path)["images"]) == 1


def test_predict_turns_images_upright(model, tmp_path, capsys):
    image = Image.fromarray(pictures(range(1), 1)[0][0].transpose(1, 2, 0))
    image.save(tmp_path / "upright.png")
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned by 90° clockwise
    image.rotate(90).save(tmp_path / "turned.png", exif=turned)
    upright, other = answered(capsys, model, tmp_path / "upright.png", tmp_path / "turned.png")["images"]
    assert upright["answers"] == other["answers"]


def test_predict_reads_colour_images_for_a_grey_model(tmp_path, capsys):
    path = saved(tmp_path, lambda classes: images(classes, channels=1), epochs=1)
    write_pictures(tmp_path / "images", range(1), each=1)
    assert answered(capsys, path, tmp_path / "images")["images"][0]["answers"][0]["class"] in range(5)


def test_predict_lists_what_it_cannot_read_and_goes_on(model, tmp_path, capsys):
    write_pictures(tmp_path, range(1), each=2)
    (tmp_path / "ant" / "broken.png").write_bytes(b"no image")
    esacl("predict", model, tmp_path, tmp_path / "missing.jpg")
    told = capsys.readouterr().err
    assert "2 of 4 could not be read and were left out" in told
    assert "broken.png" in told
    assert "missing.jpg: there is no such file" in told
    found = answered(capsys, model, tmp_path, tmp_path / "missing.jpg")
    assert (len(found["images"]), len(found["unreadable"])) == (2, 2)


def test_predict_ends_with_1_if_nothing_could_be_read(model, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        esacl("predict", model, tmp_path)
    assert ended.value.code == 1
    assert "a folder without image files" in capsys.readouterr().err


def test_predict_refuses_models_that_read_no_image_files(tmp_path, fails):
    assert "reads 12 features, not images" in fails("predict", saved(tmp_path, features, epochs=1), tmp_path)
    run = finished(tmp_path, "packnet")
    assert "Add --task N" in fails("predict", run, tmp_path)


def test_learn_adds_a_task_and_export_takes_it_along(model, tmp_path, capsys):
    copy = tmp_path / "copy.esacl"
    esacl("learn", model, write_pictures(tmp_path / "new", range(1), each=4), "--out", copy, "--epochs", "1")
    assert "task 3: 0 new classes and 1 known before from 4 images" in capsys.readouterr().out
    assert ContinualClassifier.load(model).n_tasks_ == 2, "with --out the old file stays"
    (tmp_path / "new" / "ant").rename(tmp_path / "new" / "fox")
    esacl("learn", copy, tmp_path / "new")
    learner = ContinualClassifier.load(copy)
    assert learner.classes_.tolist() == ["ant", "bee", "cat", "dog", "emu", "fox"]
    assert (learner.n_tasks_, learner.epochs, learner.verbose) == (4, 1, False)
    esacl("export", copy, "--format", "safetensors", "--out", tmp_path / "small")
    assert library.load_sparse(tmp_path / "small")["head.bias"].shape == (6,)
    esacl("inspect", tmp_path / "small")
    assert "an exported model" in capsys.readouterr().out


def test_learn_starts_a_new_model_if_told_the_method(tmp_path, capsys, fails):
    folder, path = write_pictures(tmp_path / "new", range(2)), tmp_path / "new.esacl"
    (folder / "ant" / "broken.png").write_bytes(b"no image")
    assert "add --method esacl-der++" in fails("learn", path, folder)
    assert "unknown method 'errr'" in fails("learn", path, tmp_path / "not looked at", "--method", "errr")
    esacl("learn", path, folder, "--method", "er", "--image-size", "8", "--epochs", "1", "--buffer", "10")
    told = capsys.readouterr()
    assert "task 1: 2 new classes from 8 images" in told.out
    assert told.err.count("1 of 9 images could not be read") == 2, "more than a tenth: told at the end again"
    assert ContinualClassifier.load(path).method == "er"
    assert "keeps the method it began with" in fails("learn", path, folder, "--method", "der++")
    assert "--buffer 5 was given" in fails("learn", path, folder, "--buffer", "5")


def test_a_model_keeps_the_rule_for_images_that_are_not_square(tmp_path, fails):
    folder, path = write_pictures(tmp_path / "new", range(2)), tmp_path / "new.esacl"
    start = ("--method", "er", "--image-size", "8", "--epochs", "1", "--buffer", "10")
    esacl("learn", path, folder, *start, "--resize", "pad")
    assert open_model(path).scale.resize == "pad"
    assert "--resize crop was given" in fails("learn", path, folder, "--resize", "crop")
    esacl("learn", path, folder)
    esacl("export", path, "--format", "torch", "--out", tmp_path / "weights")
    assert open_model(tmp_path / "weights").scale.resize == "pad"


def test_learn_that_fails_leaves_the_file_as_it_was(model, tmp_path, fails):
    before = model.read_bytes()
    (tmp_path / "empty").mkdir()
    assert "no sub-folder" in fails("learn", model, tmp_path / "empty")
    (tmp_path / "split" / "train").mkdir(parents=True)
    (tmp_path / "split" / "test").mkdir()
    assert "splits and not classes" in fails("learn", model, tmp_path / "split")
    assert "a folder that does not exist" in fails("learn", model, tmp_path, "--out", tmp_path / "no" / "such")
    assert model.read_bytes() == before


def test_learn_that_is_interrupted_leaves_the_file_as_it_was(model, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    before = model.read_bytes()
    monkeypatch.setattr("esacl.training.trainer.Trainer.run", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["learn", str(model), str(write_pictures(tmp_path, range(1)))])
    assert ended.value.code == 130
    assert model.read_bytes() == before


def test_learn_says_what_to_do_instead_with_a_run_or_an_exported_file(model, tmp_path, fails):
    assert "esacl learn NEW_FILE FOLDER --method NAME" in fails("learn", tmp_path, tmp_path)
    esacl("export", model, "--format", "torch", "--out", tmp_path / "weights")
    assert "not what a model needs to go on learning" in fails("learn", tmp_path / "weights", tmp_path)


def test_learn_takes_numbers_for_names_where_the_classes_are_numbers(tmp_path, fails):
    path = saved(tmp_path, lambda classes: images(classes), epochs=1)
    folder = write_pictures(tmp_path / "new", range(1))
    assert "Name each sub-folder by its number" in fails("learn", path, folder)
    (folder / "ant").rename(folder / "7")
    esacl("learn", path, folder)
    assert ContinualClassifier.load(path).classes_.tolist() == [0, 1, 2, 3, 4, 7]
