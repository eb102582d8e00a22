"""The page about a model: complete, small, safe whatever names are in it, and fit for a phone."""

import numpy as np
import pytest
import torch

from esacl.metrics.calibration import Bin
from esacl.metrics.evaluation import Calibration, Evaluation, Mistake, TaskScore
from esacl.report.evaluation_page import render, write_evaluation
from esacl.report.figures.confusion_plot import confusion_plot
from tests.report.browser import DARK, look_at, needs_browser
from tests.report.fabricate import NASTY
from tests.report.test_html import Page, check_is_complete_and_safe


def fabricated(classes: int = 5, size: int = 32, name: str = "class {}", mistakes: int = 24) -> Evaluation:
    rng = np.random.default_rng(classes)
    names = tuple(name.format(place) for place in range(classes))
    counts = np.eye(classes, dtype=int) * 50 + rng.poisson(0.4, (classes, classes))
    entry = {"old": [80, 100], "new": [45, 50], "fell": True}
    noise = torch.from_numpy(rng.integers(256, size=(3, size, size), dtype=np.uint8))
    half = classes // 2
    return Evaluation(
        model=f"{name}.esacl",
        data=name,
        method="er",
        classes=names,
        confusion=tuple(map(tuple, counts.tolist())),
        calibration=Calibration(0.08, (Bin(4, 0.5, 0.25), Bin(90, 0.97, 0.9)), 1.7, "the memory", 50, 94, 0.08, 0.02),
        tasks=(TaskScore(1, names[:half], 100, 0.9, 0.8), TaskScore(2, names[half:], 100, 0.9, 0.8)),
        mistakes=tuple(Mistake(f"{name}/x.png", names[0], names[1], 0.99, noise) for _ in range(mistakes)),
        unknown={name: 3},
        unreadable={f"{name}.png": name},
        history=[{**entry, "task": task} for task in (1, 2, 3)],
    )


def page_of(found):
    text = render(found)
    return Page(text), text


@pytest.mark.parametrize("name", ["class {}", NASTY + " {}"])
def test_it_is_complete_and_safe_whatever_the_names(name):
    found = fabricated(name=name.replace("{{ 7*7 }}", "{{{{ 7*7 }}}}"))
    page, text = page_of(found)
    check_is_complete_and_safe(page, text)
    assert page.tags.count("figure") == 3
    assert page.tags.count("img") == 24
    for words in ("Mean recall", "Left out", "The most confident mistakes", "1.70", "at task 1, 2, 3"):
        assert words in page.text


@pytest.mark.parametrize(("classes", "size"), [(100, 512), (10, 64)])
def test_it_stays_small_however_many_classes_and_pixels(classes, size):
    _, text = page_of(fabricated(classes, size))
    assert len(text.encode()) < 900_000


def test_what_there_is_not_is_left_out():
    plain = Evaluation("m", "d", "er", ("ant", "bee"), ((3, 0), (0, 3)), Calibration(0.1, (Bin(6, 0.9, 1.0),)))
    page, text = page_of(plain)
    check_is_complete_and_safe(page, text)
    assert page.tags.count("figure") == 2
    for words in ("mistakes", "Left out", "Each task", "After each task"):
        assert words not in page.text
    assert "Too few images to fit a temperature" in page.text


def test_the_confusion_matrix_has_every_count_and_a_line_between_tasks():
    chart = confusion_plot([[7, 2, 0], [0, 9, 0], [1, 0, 4]], ["ant", "bee", "$x_1$ <b>"], tasks=[2, 1])
    svg = chart.svg("p")
    for words in (">7<", ">2<", ">9<", ">1<", ">4<", "$x_1$ &lt;b&gt;", "20 of 23 answers are right"):
        assert words in svg
    assert "Lines part the tasks" in chart.caption
    assert "Lines" not in confusion_plot([[7, 2], [0, 9]], ["ant", "bee"], tasks=[1]).caption
    assert confusion_plot([[7]], ["ant"]) is None
    assert confusion_plot([[0] * 101] * 101, ["ant"] * 101) is None


def test_the_file_is_written_in_one_step(tmp_path):
    place = write_evaluation(fabricated(), tmp_path / "new" / "page.html")
    assert place.read_text("utf-8") == render(fabricated())


@needs_browser
@pytest.mark.parametrize("flags", [(), (DARK,)])
def test_it_fits_a_phone_and_logs_no_error(tmp_path, flags):
    look_at(render(fabricated(30, name="a-very-long-name-of-a-class-{}")), tmp_path, "", 390, *flags)
