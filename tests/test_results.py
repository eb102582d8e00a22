"""The tables of docs/results are those that their kept runs give."""

import io
import tarfile
from pathlib import Path

import pytest
import results

PAGES = Path(__file__).parents[1] / "docs" / "results"


@pytest.mark.parametrize("name", list(results.names()))
def test_a_page_is_what_its_runs_give(name: str) -> None:
    assert (PAGES / f"{name}.md").read_text(encoding="utf-8") == results.page(name)


def test_a_recipe_that_asks_for_other_runs_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "digits-bounds.tar.xz"
    with tarfile.open(empty, "w:xz"):
        pass

    with pytest.raises(SystemExit, match="asks for other runs"):
        results.page("digits-bounds", tmp_path)


def test_only_settings_and_results_are_packed_and_the_same_twice(tmp_path: Path) -> None:
    run = tmp_path / "er" / "0"
    (run / "checkpoint").mkdir(parents=True)
    for name in ("config.toml", "results.json", "model.safetensors", "checkpoint/config.toml"):
        (run / name).write_text(name)
    (tmp_path / "er" / "0.asked.json").write_text("asked")

    packed = results.pack(tmp_path)

    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["er/0/config.toml", "er/0/results.json", "er/0.asked.json"]
    assert results.pack(tmp_path) == packed


def test_a_folder_without_a_recipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        results.main([str(tmp_path / "digits" / "nothing")])

    assert "there is no recipes/digits/nothing.toml" in capsys.readouterr().err
