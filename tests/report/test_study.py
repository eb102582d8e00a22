"""The numbers behind the plots of a grid are those of its runs."""

import csv
from io import StringIO
from itertools import pairwise
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esacl.grid.study import read_study
from esacl.grid.tables import figures, read_grid
from esacl.methods import METHODS
from esacl.report.ablations import KINDS, ablations
from esacl.report.figures.cost_plot import COSTS, dots
from esacl.report.figures.families import DENSE, ESACL, OWN, REPLAY, SPARCL, family_of
from esacl.report.figures.labels import nearest_edge, place, side_by_side, spread_out
from esacl.report.figures.over_tasks_plot import forgetting_courses
from esacl.report.figures.themes import themes
from esacl.report.sweeps import SWEEPS, series
from tests.report.fabricate_grid import MOVED, write_grid

COLUMNS = {"capacity": "capacity", "flops": "flops_executed", "time": "seconds_train"}

KNOWN = list(METHODS)  # those of the grid: other tests may register more


@pytest.fixture(scope="module")
def every(every_method):
    """All methods with three seeds, the last with one, and the lines of figures.csv."""
    return read_study([every_method]), list(csv.DictReader(StringIO(figures(read_grid(every_method)[1]))))


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """A grid that moves sparsity, rho and keep, and leaves parts out."""
    folder = tmp_path_factory.mktemp("moved") / "grid"
    write_grid(folder, MOVED)
    return read_study([folder]).rows


def near(found, values):
    assert found.mean == pytest.approx(fmean(values))
    assert found.std == (pytest.approx(stdev(values)) if len(values) > 1 else None)


@pytest.mark.parametrize("setting", ["task_il", "class_il"])
@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.slug)
def test_a_point_is_the_mean_of_its_runs_with_their_standard_deviation(every, setting, cost):
    study, rows = every
    found = {dot.row.records[0].method: dot for dot in dots(study.rows, setting, cost)}
    for method in KNOWN:
        mine = [row for row in rows if row["row"] == method]
        assert len(mine) == (1 if method == KNOWN[-1] else 3)
        if setting == "class_il" and METHODS[method].needs_task_id:
            assert method not in found
            continue
        near(found[method].y, [float(row[setting]) for row in mine])
        near(found[method].x, [float(row[COLUMNS[cost.slug]]) for row in mine])


@pytest.mark.parametrize("setting", ["task_il", "class_il"])
def test_forgetting_over_tasks_ends_at_the_forgetting_of_the_runs(every, setting):
    found = forgetting_courses(every[0].rows, setting)
    methods = {course.row.records[0].method for course in found}
    assert "mtl" not in methods
    assert ("wsn" in methods) == (setting == "task_il")
    for course in found:
        records = course.row.records
        near(course.stages[-1], [record.forgetting.of(setting) for record in records])
        first = [record.matrix[setting] for record in records]
        near(course.stages[0], [rows[0][0] - rows[1][0] for rows in first])
        assert len(course.stages) == records[0].tasks - 1


def test_every_method_is_in_a_family_with_its_own_marker_and_colour(every):
    families = {line.records[0].method: family_of(line) for line in every[0].rows}
    assert families.keys() == METHODS.keys()
    kinds = set(families.values())
    assert len({family.marker for family in kinds}) == len({family.ink for family in kinds}) == len(kinds) == 6
    named = {"esacl-er": ESACL, "sparcl-co2l": SPARCL, "nispa": OWN, "icarl": REPLAY, "la-maml": REPLAY, "gpm": DENSE}
    assert {name: families[name] for name in named} == named


@pytest.mark.parametrize(
    ("slug", "values", "names"),
    [
        ("sparsity", [0.7, 0.8, 0.9], ["whole, sparsity 0.7", "whole, sparsity 0.8", "whole, sparsity 0.9"]),
        ("rho", [0.0, 0.05, 0.2], ["flat", "whole, sparsity 0.8", "sharper"]),
    ],
)
def test_a_sweep_is_the_lines_that_differ_in_that_setting_alone(moved, slug, values, names):
    sweep = next(sweep for sweep in SWEEPS if sweep.slug == slug)
    (found,) = series(moved, sweep)
    assert [value for value, _ in found.points] == values
    assert [line.label for _, line in found.points] == names


def test_all_the_data_is_the_end_of_every_series_that_keeps_less_of_it(moved):
    sweep = next(sweep for sweep in SWEEPS if sweep.path == "selection.keep")
    found = series(moved, sweep)
    ends = [[(value, line.label) for value, line in one.points] for one in found]
    names = ("less data", "no ascent on few", "all in the descent")
    assert ends == [[(0.0, "whole, sparsity 0.8"), (0.6, name)] for name in names]
    assert len({one.label for one in found}) == 3


def test_data_that_are_left_out_of_batches_and_of_tasks_are_in_one_plot(moved):
    (theme,) = [theme for theme in themes(moved) if theme.title == "Sweep: share of the data that is left out"]
    for chart in theme.charts:
        assert len(chart.legend) == 4
        assert [key.name for key in chart.legend][-1] == "sparcl-er"
        told = {spot.text for spot in chart.spots if spot.row.records[0].method == "sparcl-er"}
        assert {text.rpartition(" ")[2] for text in told} == {"0", "0.3", "0.6"}


def test_ablations_are_known_by_their_settings_not_by_names_of_rows(moved):
    pruning, selection = (ablations(moved, kind) for kind in KINDS)
    assert [one.whole.label for one in pruning] == ["whole, sparsity 0.8"]
    assert [(variant.without, variant.row.label) for variant in pruning[0].variants] == [
        ("SA", "dull"),
        ("SP", "spherical"),
    ]
    assert pruning[0].variants[0].also == ()
    assert any(text.startswith("lr ") for text in pruning[0].variants[1].also)  # SGD has a rate of its own
    assert [one.whole.label for one in selection] == ["less data"]
    assert [variant.without for variant in selection[0].variants] == ["SSE", "ERE"]


def test_a_grid_that_moves_nothing_has_no_sweep_and_no_ablation(every):
    lines = every[0].rows
    assert not any(series(lines, sweep) for sweep in SWEEPS)
    assert not any(ablations(lines, kind) for kind in KINDS)


POINTS = st.lists(st.tuples(st.floats(60, 470), st.floats(50, 400)), min_size=1, max_size=25)


@given(POINTS)
def test_names_never_overlap_and_stay_inside(points):
    room = (40.0, 40.0, 480.0, 420.0)
    boxes = place(points, [(80.0, 14.0)] * len(points), room)
    placed = [box for box in boxes if box is not None]
    assert placed
    for n, box in enumerate(placed):
        assert room[0] <= box[0] < box[2] <= room[2]
        assert room[1] <= box[1] < box[3] <= room[3]
        for other in placed[:n]:
            assert box[0] >= other[2] or other[0] >= box[2] or box[1] >= other[3] or other[1] >= box[3]


@given(st.lists(st.floats(0, 300), min_size=1, max_size=20))
def test_names_at_the_side_keep_their_order_and_their_distance(heights):
    moved = spread_out(heights, 14, 0, 300)
    order = sorted(range(len(heights)), key=lambda n: heights[n])
    assert all(moved[b] - moved[a] >= 14 - 1e-6 for a, b in pairwise(order))
    assert all(-1e-6 <= height <= 300 + 1e-6 for height in moved)
    if all(heights[b] - heights[a] >= 14 for a, b in pairwise(order)):
        assert moved == pytest.approx(heights)


@given(POINTS)
def test_points_step_aside_by_little_and_never_up_or_down(points):
    for (x, y), (new_x, new_y) in zip(points, side_by_side(points, 8)):
        assert new_y == y
        assert abs(new_x - x) <= 16 + 1e-9
    assert nearest_edge((0, 0, 10, 10), (20, 5)) == (10, 5)
