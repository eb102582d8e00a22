"""`make kill`: cases are drawn alike from a seed, real kills go on to the same bits, and a lost state is found."""

import os
import sys
from pathlib import Path

import pytest

from tests.kills import __main__ as command
from tests.kills.cases import Broken, Case, Killer, draw_case
from tests.kills.fronts import FRONTS, Classifier, Run
from tests.kills.moments import Moment
from tests.kills.setups import SETUPS, Setup

posix = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")
FORGETFUL = f"{Path(__file__).parent / 'kills' / 'forgetful.py'}:METHOD"
CHEAP = [case for number in range(18) if (case := draw_case(0, number)).front in (Run, Classifier)]


@pytest.fixture(scope="module")
def killer(tmp_path_factory):
    return Killer(tmp_path_factory.mktemp("kills"))


class Late(Case):
    """Killed in the fourth of five tasks."""

    def moments(self, counts, seconds):
        return [Moment("step", counts["step"] * 7 // 10)]


def test_a_case_is_drawn_from_the_seed_and_its_number():
    counts = {"step": 30, "write": 60}
    drawn = [draw_case(0, number) for number in range(100)]
    assert [each.moments(counts, 1.0) for each in drawn] == [
        draw_case(0, number).moments(counts, 1.0) for number in range(100)
    ]
    assert {each.front for each in drawn} == {*FRONTS.values()}
    assert {each.setup.name for each in drawn[: len(SETUPS)]} == {*SETUPS}
    assert all(each.setup.classifier for each in drawn if each.front is Classifier)
    assert [each.front for each in drawn] != [draw_case(1, number).front for number in range(100)]


@posix
@pytest.mark.parametrize("case", CHEAP[:3], ids=lambda case: f"{case.setup.name}, {case.front.__name__}")
def test_killed_training_goes_on_to_the_same_bits(case, killer):
    moments, kills = killer.attempt(case)
    assert 1 <= kills <= len(moments)


@posix
def test_a_part_whose_state_lacks_something_is_found(killer):
    setup = Setup("forgetful", {"method": FORGETFUL, "buffer": 20})
    with pytest.raises(Broken, match=r"after step \d+ these differ: .*"):
        killer.attempt(Late(1000, setup, Run, ""))


@posix
def test_a_kill_that_never_comes_is_no_success(killer):
    class Never(Case):
        def moments(self, counts, seconds):
            return [Moment("step", counts["step"] + 1)]

    with pytest.raises(Broken, match="nobody was killed at step"):
        killer.attempt(Never(1001, SETUPS["ewc"], Run, ""))


def test_a_failure_is_told_with_the_command_that_repeats_it(monkeypatch, capsys):
    def attempt(self, case):
        if case.number == 1:
            raise Broken("after step 3 these differ: weights: head.bias")
        (self.folder / f"case {case.number}").mkdir()
        return [Moment("write", 5)], 1

    monkeypatch.setattr(Killer, "attempt", attempt)
    monkeypatch.setattr(sys, "argv", ["kills", "--cases", "3", "--seed", "7"])
    assert command.main() == 1
    told = capsys.readouterr()
    assert "again: python -m tests.kills --seed 7 --case 1" in told.err
    assert "[1/3" in told.err
    assert "same bits in 2 of 3 cases, 2 kills" in told.out
