"""The sentence about the scale of runs."""

from dataclasses import replace

from esacl.report.load import load_run
from esacl.report.scale import scale_words
from tests.report.fabricate import write_run


def test_a_setting_of_a_file_may_be_a_list(tmp_path):
    record = load_run(write_run(tmp_path / "run"))
    changed = replace(record, config={**record.config, "stream": {"limit_per_class": [8]}})
    (words,) = scale_words([("er", [changed])], paper=False)
    assert words.startswith("Scale: images a class [8]; ")


def test_of_many_rows_only_those_that_differ_are_named(tmp_path):
    record = load_run(write_run(tmp_path / "run"))
    rows = [(f"row {number}", [replace(record, epochs=10)]) for number in range(4)]
    (words,) = scale_words([*rows, ("longer", [replace(record, epochs=13)])], paper=False)
    assert "epochs a task 10, but 13 (longer);" in words
    (words,) = scale_words([rows[0], ("longer", [replace(record, epochs=13)])], paper=False)
    assert "epochs a task 10 (row 0), 13 (longer);" in words
