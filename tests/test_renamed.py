"""Parts that were written for names of before say so, instead of being passed over."""

import pytest

import esacl
from esacl.artifacts import RunDirectory
from esacl.methods.contract import RENAMED, part_problem
from esacl.methods.method import BASES

SLOTS = {"fill": "gradient", "remembered": "objective", "wanted": "objective", "belongings": "constraint"}


@pytest.mark.parametrize(("old", "slot"), SLOTS.items())
def test_a_part_with_a_method_of_before_is_refused(old: str, slot: str) -> None:
    mine = type("Mine", (BASES[slot],), {old: lambda self: None})
    assert part_problem(slot, mine) == f"Mine.{old} is called {RENAMED[old]} now. Rename it."
    assert hasattr(BASES[slot], RENAMED[old])


def test_a_new_run_records_a_part_by_its_name_of_today(tmp_path) -> None:
    config = esacl.Config.of(method="er", readout="linear-probe", epochs=1, limit_per_class=20, tasks=2)
    assert esacl.run(config, tmp_path / "run").method == "er + probe"
    assert RunDirectory(tmp_path / "run").config().parts.readout == "probe"
