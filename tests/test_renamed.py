"""Parts that were written for names of before say so, instead of being passed over."""

import pytest

from esacl.methods.contract import RENAMED, part_problem
from esacl.methods.method import BASES

SLOTS = {"fill": "gradient", "remembered": "objective", "wanted": "objective", "belongings": "constraint"}


@pytest.mark.parametrize(("old", "slot"), SLOTS.items())
def test_a_part_with_a_method_of_before_is_refused(old: str, slot: str) -> None:
    mine = type("Mine", (BASES[slot],), {old: lambda self: None})
    assert part_problem(slot, mine) == f"Mine.{old} is called {RENAMED[old]} now. Rename it."
    assert hasattr(BASES[slot], RENAMED[old])
