"""`esacl evaluate`, and what `learn` and `predict` say of how good a model is."""

import json

import pytest

from tests.cli.commands import esacl
from tests.deploy.models import saved, write_pictures


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model"), holdout=0.2, epochs=2)


@pytest.fixture
def tree(tmp_path):
    return write_pictures(tmp_path / "tree", range(5), each=9, seed=7)


def test_evaluate_tells_people_and_programs_how_good_a_model_is(model, tree, tmp_path, capsys):
    (tree / "ant" / "0.png").rename(tree / "bee" / "wrong.png")
    esacl("evaluate", model, tree, "-o", tmp_path / "page.html")
    told = capsys.readouterr().out
    for words in ("of 45 (95 % interval", "ECE", "precision", "1 ant", "among its classes", "but it is bee"):
        assert words in told
    assert max(map(len, told.splitlines()[3:-2])) <= 80
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "How good is model.esacl?" in page
    assert "data:image/png;base64," in page
    esacl("evaluate", model, tree, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["examples"]) == (1, 45)
    assert sum(map(sum, found["confusion"])) == 45
    assert [entry["task"] for entry in found["history"]] == [1, 2]
    assert found["mistakes"][0]["name"].endswith("bee/wrong.png")


def test_evaluate_says_what_it_left_out(model, tree, capsys):
    (tree / "emu").rename(tree / "fox")
    (tree / "ant" / "broken.png").write_bytes(b"no image")
    esacl("evaluate", model, tree)
    told = capsys.readouterr().err
    assert "of a class that the model does not know: 9 images (fox)" in told
    assert "could not be read: 1 image, such as" in told


def test_evaluate_refuses_what_it_cannot_judge(model, tree, tmp_path, fails):
    (tmp_path / "empty").mkdir()
    assert "at least one class is needed" in fails("evaluate", model, tmp_path / "empty")
    assert "unknown stream" in fails("evaluate", model, "split-digit")
    assert "the model reads 3×8×8 of bytes" in fails("evaluate", model, "split-digits")
    assert "there is no task 3" in fails("evaluate", model, tree, "--task", "3")
    assert "a folder that does not exist" in fails("evaluate", model, tree, "-o", tmp_path / "no" / "page.html")


def test_a_run_is_evaluated_on_the_stream_that_it_learnt(tmp_path, capsys):
    words = ("--method", "er", "--epochs", "1", "--width", "16", "--out", tmp_path / "run")
    esacl("run", *words)
    esacl("evaluate", tmp_path / "run", "split-digits", "--json")
    found = json.loads(capsys.readouterr().out.split("report:")[1].split("\n", 1)[1])
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [task["class_il"] for task in found["tasks"]] == pytest.approx(results["matrix"]["class_il"][-1])


def test_predict_compares_with_the_names_of_folders(model, tree, tmp_path, capsys):
    esacl("predict", model, tree, "--json")
    named = json.loads(capsys.readouterr().out)["named"]
    assert named["images"] == 45
    esacl("predict", model, tree)
    told = capsys.readouterr().out
    assert f"{named['right'] / 45:.1%} of 45 images are answered with the name of their folder" in told
    assert "esacl evaluate" in told
    esacl("predict", model, tree / "ant")
    assert "name of their folder" not in capsys.readouterr().out
    (tree / "ant").rename(tree / "holiday")
    esacl("predict", model, tree, "--json")
    assert json.loads(capsys.readouterr().out)["named"]["images"] == 36


def test_predict_runs_a_graph(model, tree, tmp_path, capsys, fails):
    pytest.importorskip("onnxruntime")
    esacl("export", model, "--format", "onnx", "--out", tmp_path / "m.onnx")
    capsys.readouterr()
    found = []
    for each in (model, tmp_path / "m.onnx"):
        esacl("predict", each, tree, "--json", "--top", "1")
        found.append([image["answers"][0] for image in json.loads(capsys.readouterr().out)["images"]])
    assert [one["class"] for one in found[0]] == [other["class"] for other in found[1]]
    assert [one["probability"] for one in found[0]] == pytest.approx([one["probability"] for one in found[1]], abs=1e-5)
    assert "is an ONNX graph" in fails("inspect", tmp_path / "m.onnx")


def test_learn_tells_how_good_old_and_new_classes_are(tmp_path, capsys, fails):
    path, week = tmp_path / "new.esacl", write_pictures(tmp_path / "1", range(2), each=20)
    esacl(
        "learn",
        path,
        week,
        "--method",
        "finetune",
        "--image-size",
        "8",
        "--epochs",
        "8",
        "--holdout",
        "0.4",
        "--seed",
        "1",
    )
    told = capsys.readouterr()
    assert "from 40 images (16 of them held out)" in told.out
    assert "right on held-out images: 100.0% of 16 of new ones" in told.out
    esacl("learn", path, write_pictures(tmp_path / "2", range(2, 4), each=9))
    told = capsys.readouterr()
    assert "of 16 of old classes (100.0% before)" in told.out
    assert "warning: old classes fell by" in told.err
    judges = write_pictures(tmp_path / "judges", range(5), each=3, seed=2)
    esacl("learn", path, tmp_path / "2", "--holdout", judges)
    assert "of 12 of old classes" in capsys.readouterr().out
    esacl("learn", path, write_pictures(tmp_path / "3", range(4, 5), each=9), "--holdout", "0")
    assert "of 16 of old classes" in capsys.readouterr().out, "what is kept still tells"
    assert "--holdout 0.7 is not allowed" in fails("learn", path, week, "--holdout", "0.7")
    assert "there is no folder 'absent'" in fails("learn", path, week, "--holdout", "absent")


def test_learn_says_when_there_is_nothing_to_judge_by(tmp_path, capsys):
    path, week = tmp_path / "new.esacl", write_pictures(tmp_path / "1", range(2))
    esacl("learn", path, week, "--method", "er", "--image-size", "8", "--epochs", "1")
    assert "nothing is held out to judge by" in capsys.readouterr().err
