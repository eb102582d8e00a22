"""The page about the classifier tells the truth: its snippets run, one after the other."""

import re
from pathlib import Path

from esacl.estimator.settings import RATIO

PAGE = Path(__file__).parents[2] / "docs" / "estimator.md"


def test_the_python_of_the_page_runs_as_one_session(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    session = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(block, session)
    told = capsys.readouterr().out
    accuracy = float(re.search(r"([\d.]+)% of all ten digits, with 15% of the weights", told).group(1))
    assert accuracy > 80
    assert "6 tasks learnt" in told
    model, new = session["careful"], session["new"]
    assert model.fit(session["X_train"][new], session["y_train"][new]).density_ < 0.1


def test_the_share_that_the_page_names_is_the_default():
    assert f'"ratio": {RATIO}' in PAGE.read_text(encoding="utf-8")
