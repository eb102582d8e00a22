import json

import pytest

import esacl as library
from esacl.cli import main
from esacl.config import Config
from esacl.errors import ConfigError, RunError
from esacl.methods import PARTS
from tests.cli.commands import esacl

QUICK = {"stream": "split-digits", "epochs": 1, "limit_per_class": 20, "width": 16, "threads": 1}


def settings(**more):
    return Config.of(method="er", buffer=40, **QUICK, **more)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "er"
    library.run(settings(), place)
    return place


def files(place):
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "name", ["head", "refit", "bias", "lda", "two-step", "nearest-mean", "random-features", "probe"]
)
def test_a_readout_of_a_trained_run_answers_as_a_run_with_it(name, trained, tmp_path):
    before = files(trained)
    (found,) = library.compare_readouts(trained, [name])
    whole = library.run(settings(readout=name), tmp_path / "run")
    assert (found.task_il, found.class_il) == (whole.task_il, whole.class_il)
    assert files(trained) == before


def test_all_readouts_are_tried_in_turn_and_none_disturbs_the_next(trained):
    found = library.compare_readouts(trained)
    assert [row.readout for row in found] == [*PARTS["readout"], "bias form=norms"]
    for row in found[:-1]:
        (alone,) = library.compare_readouts(trained, [row.readout])
        assert (row.task_il, row.class_il, row.macs) == (alone.task_il, alone.class_il, alone.macs)
        assert (row.macs == 0) == (row.readout == "head")
        assert (row.bytes == 0) == (row.readout not in ("random-features", "two-step"))


def test_options_and_another_split_change_the_answer(trained):
    found = library.compare_readouts(trained, ["refit", ("refit", {"decay": 1000.0})])
    assert [row.readout for row in found] == ["refit", "refit decay=1000.0"]
    assert found[0].class_il != found[1].class_il
    (other,) = library.compare_readouts(trained, ["refit"], split="validation")
    assert other.class_il != found[0].class_il
    both = library.compare_readouts(trained, ["refit"], split="both")
    assert [row.split for row in both] == ["validation", "test"]
    assert [row.class_il for row in both] == [other.class_il, found[0].class_il]
    with pytest.raises(ConfigError, match=r"readout\.decay = .much. is not allowed"):
        library.compare_readouts(trained, [("refit", {"decay": "much"})])


def test_a_run_that_cannot_be_read_out_so_says_why(tmp_path):
    library.run(Config.of(method="packnet", **QUICK), tmp_path / "packnet")
    library.run(Config.of(method="finetune", **QUICK), tmp_path / "finetune")
    owned, forgotten = (
        {row.readout: row.refused for row in library.compare_readouts(tmp_path / name)}
        for name in ("packnet", "finetune")
    )
    assert owned["head"] is None
    assert forgotten["head"] is None
    assert forgotten["bias form=norms"] is None
    assert "there is nothing of earlier tasks" in forgotten["bias"]
    for name in ("refit", "lda", "nearest-mean", "probe"):
        assert "weights of its own" in owned[name]
        assert "the network moves on" in forgotten[name]


def test_a_run_with_bias_is_read_out_with_what_it_held_out(tmp_path):
    whole = library.run(Config.of(method="finetune", readout="bias", **QUICK), tmp_path / "run")
    (found,) = library.compare_readouts(tmp_path / "run", ["bias"])
    assert found.refused is None
    assert (found.task_il, found.class_il) == (whole.task_il, whole.class_il)


def test_the_command_prints_a_table_for_people_and_json_for_programs(trained, capsys):
    esacl("readouts", trained)
    told = capsys.readouterr().out
    assert all(name in told for name in ("Class-IL", *PARTS["readout"]))
    esacl("readouts", trained, "--readout", "refit", "--set", "decay=0.5", "--json")
    ((row,),) = json.loads(capsys.readouterr().out).values()
    assert row["readout"] == "refit decay=0.5"


@pytest.mark.parametrize(
    ("words", "message"),
    [((), "no run was given"), (("x", "--set", "decay=1"), "Name it: --readout NAME --set decay=1")],
)
def test_what_cannot_be_compared_is_one_line(words, message, capsys):
    with pytest.raises(SystemExit):
        main(["readouts", *words])
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_an_unfinished_run_has_nothing_to_read_out(trained, tmp_path):
    (tmp_path / "config.toml").write_bytes((trained / "config.toml").read_bytes())
    with pytest.raises(RunError, match=r"is not finished\. Finish it first: `esacl resume"):
        library.compare_readouts(tmp_path)
