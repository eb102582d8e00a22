"""The page is one complete, safe and repeatable HTML file with the numbers of its runs."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from esacl.errors import RunError
from esacl.report import load_run, write_report
from esacl.report import page as page_module
from tests.report.fabricate import NASTY, events, results, write_run, write_runs

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags, attributes and text; a tag that is not closed in order is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.labels: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        assert len(values) == len(attrs), f"an attribute twice in <{tag}>"
        assert not any(name.startswith("on") for name in values), f"an event handler in <{tag}>"
        self.tags.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("href", "src", "action", "data") if name in values]
        if tag == "svg" and values.get("aria-hidden") != "true":
            self.labels.append(values["aria-label"])
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self._open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def report(tmp_path: Path, runs) -> tuple[Page, str]:
    text = write_report(runs, tmp_path / "report.html").read_text("utf-8")
    return Page(text), text


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """The page of three methods with two seeds each, its source and its runs."""
    folder = tmp_path_factory.mktemp("several")
    runs = write_runs(folder, ["er", "esacl-der++", "mtl"], seeds=2, tasks=4)
    page, text = report(folder, runs)
    return page, text, [load_run(run) for run in runs]


def check_is_complete_and_safe(page: Page, text: str, scripts: int = 0) -> None:
    assert page.tags.count("script") == scripts, "the page of several runs has its own, and no other"
    assert not {"iframe", "object", "embed", "form", "base"} & set(page.tags)
    assert len(page.ids) == len(set(page.ids))
    inner = {link for link in page.links if link.startswith("#")}
    assert {link[1:] for link in inner} <= set(page.ids)
    pictures = {link for link in page.links if re.fullmatch(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=]+", link)}
    assert set(page.links) - inner - pictures == {"data:,"}
    own = re.sub(r"(?s)<script>.*</script>", "", text)
    assert not re.search(r"https?://|//[a-z]+\.[a-z]|@import|@font-face|expression\(", own)
    assert all(label.strip() for label in page.labels)
    assert len(page.labels) == page.tags.count("figure")
    assert page.tags.count("h1") == page.tags.count("main") == page.tags.count("title") == 1


def test_one_run_is_one_small_complete_page(tmp_path):
    page, text = report(tmp_path, [write_run(tmp_path / "run")])
    check_is_complete_and_safe(page, text)
    assert len(text.encode()) < 200_000
    assert page.tags.count("figure") == 9
    assert "Content-Security-Policy" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_the_page_holds_the_numbers_of_the_run(tmp_path):
    found = results()
    page, _ = report(tmp_path, [write_run(tmp_path / "run", found)])
    figures = [found["task_il"], found["class_il"], found["forgetting"]["task_il"], found["forgetting"]["class_il"]]
    for value in figures:
        assert f"{100 * value:.1f}%" in page.text
    for value in ("720 GFLOP", "930 GFLOP", "1 min 03 s", "373 MiB", "batch_size 32", "torch 2.5.0"):
        assert value in page.text
    assert "2.36 MiB remembered" in page.text
    first, last = found["matrix"]["class_il"][0][0], found["matrix"]["class_il"][-1][0]
    assert f"1 0, 1 {100 * found['matrix']['task_il'][0][0]:.1f}%" in page.text
    assert f"{100 * first:.1f}% {100 * last:.1f}% −{100 * (first - last):.1f}%" in page.text


def test_the_page_explains_its_figures_in_plain_words(tmp_path, several):
    single, _ = report(tmp_path, [write_run(tmp_path / "run")])
    for page in (single, several[0]):
        for words in ("when the task is known at test time", "Lower is better", "what the hardware did"):
            assert words in page.text


def test_a_method_that_needs_the_task_says_so(tmp_path):
    page, text = report(tmp_path, [write_run(tmp_path / "run", results("packnet"))])
    check_is_complete_and_safe(page, text)
    assert "must be told the task" in page.text
    assert page.tags.count("figure") == 7
    assert "None" not in page.text
    assert "nan" not in page.text.split()


def test_a_joint_run_has_no_course_in_time(tmp_path):
    page, text = report(tmp_path, [write_run(tmp_path / "run", results("mtl"))])
    check_is_complete_and_safe(page, text)
    assert page.tags.count("figure") == 7
    assert "over time" not in page.text
    assert "nothing could be forgotten" in page.text


def test_a_single_task_can_be_reported(tmp_path):
    page, text = report(tmp_path, [write_run(tmp_path / "run", results(tasks=1))])
    check_is_complete_and_safe(page, text)
    assert page.tags.count("figure") == 7


def test_a_run_without_a_log_has_no_loss_figure(tmp_path):
    page, _ = report(tmp_path, [write_run(tmp_path / "run", log=[])])
    assert "Training loss" not in page.text
    assert page.tags.count("figure") == 8


def test_several_runs_are_compared_and_each_has_its_section(several):
    page, text, records = several
    check_is_complete_and_safe(page, text, scripts=1)
    assert [f"run-{place + 1}" for place in range(6)] == [name for name in page.ids if re.fullmatch(r"run-\d+", name)]
    assert text.count('<details class="run">') == 6
    assert page.tags.count("figure") == 13 + 4 * 9 + 2 * 7
    assert {f"#run-{place + 1}" for place in range(6)} <= set(page.links), "rows lead to their runs"
    for record in records:
        assert f"{100 * record.accuracy.task_il:.1f}" in page.text


def test_the_best_of_each_column_is_marked_among_what_learned_task_by_task(several):
    _, text, records = several
    marked = re.findall(r'<strong class="best">([^<]+)</strong>', text)
    means = {
        method: sum(100 * run.accuracy.task_il for run in records if run.method == method) / 2
        for method in ("er", "esacl-der++", "mtl")
    }
    assert means["mtl"] > max(means["er"], means["esacl-der++"])
    assert marked[0] == f"{max(means['er'], means['esacl-der++']):.1f}"
    assert "20.0" in marked  # the capacity of the sparse one
    assert "the best of all but mtl (all tasks at once)" in text


def test_runs_on_different_streams_are_not_ranked_against_each_other(tmp_path):
    runs = [write_run(tmp_path / name, results("er", name)) for name in ("a", "b")]
    page, text = report(tmp_path, runs)
    check_is_complete_and_safe(page, text, scripts=1)
    assert text.count('aria-label="Comparison on') == 2
    assert '<strong class="best">' not in text


def test_names_are_text_wherever_they_stand(tmp_path):
    found = results()
    found |= {"method": NASTY, "stream": NASTY, "logit_mask": NASTY, "split": NASTY, "versions": {NASTY: NASTY}}
    found |= {"task_classes": [[NASTY, f"{NASTY}2"]] * 5, "confusion": [[3, 1], [0, 2]]}
    settings = {"method": NASTY, "seed": 0, NASTY: {NASTY: NASTY, "list": [NASTY]}}
    log = [{**events(1, 1)[0], "phase": NASTY}]
    nasty = write_run(tmp_path / "<b>run", found, settings, log)
    for runs in ([nasty], [nasty, write_run(tmp_path / "other", results("er", NASTY) | {"split": NASTY})]):
        page, text = report(tmp_path, runs)
        check_is_complete_and_safe(page, text, scripts=len(runs) - 1)
        assert text.count("<script") == len(runs) - 1
        assert page.text.count(NASTY) >= 5
        assert "49" not in re.findall(r"\{\{.*?\}\}", page.text)


def test_the_same_runs_give_the_same_bytes(tmp_path):
    runs = [write_run(tmp_path / "a", results("mtl")), write_run(tmp_path / "b", results("packnet"))]
    first = write_report(runs, tmp_path / "one.html").read_bytes()
    assert write_report(runs, tmp_path / "two.html").read_bytes() == first


def test_a_run_given_twice_is_shown_once(tmp_path):
    run = write_run(tmp_path / "run")
    page, _ = report(tmp_path, [run, tmp_path / "." / "run"])
    assert "der++ on split-digits" in page.text


def test_the_folder_of_the_report_is_made(tmp_path):
    out = tmp_path / "new" / "folder" / "report.html"
    assert write_report([write_run(tmp_path / "run")], out) == out
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_a_report_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    out = tmp_path / "report.html"
    out.write_text("old", "utf-8")
    run = write_run(tmp_path / "run")

    def fail(*_):
        raise RuntimeError("no ink")

    monkeypatch.setattr(page_module, "RunView", fail)
    with pytest.raises(RuntimeError, match="no ink"):
        write_report([run], out)
    assert out.read_text("utf-8") == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "run"]


def test_a_report_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    run = write_run(tmp_path / "run")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(RunError, match=r"cannot write the report to .*report\.html.*--out"):
        write_report([run], tmp_path / "report.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "run"]


def test_nothing_to_report_is_an_error(tmp_path):
    with pytest.raises(RunError, match="no run directory was given"):
        write_report([], tmp_path / "report.html")


def test_one_unfinished_run_among_several_writes_no_report(tmp_path):
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b")]
    (runs[1] / "results.json").unlink()
    with pytest.raises(RunError, match="esacl resume"):
        write_report(runs, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
