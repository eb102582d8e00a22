"""Which classes are taken for which: the confusion matrix as a picture."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from esacl.metrics.confusion import MOST_CLASSES
from esacl.report.figures.axes import room_for
from esacl.report.figures.chart import Chart, Key
from esacl.report.figures.svg import CARD, FG, GRID, HEAT, ON_HEAT, PHONE, WIDTH, Margins, canvas, colour, house_style
from esacl.report.units import clean, shorten

_NUMBERS = 12  # classes up to which every cell says how many
_NAMES = 30  # classes up to which rows and columns are named
_LONGEST = 14  # characters of a name
_LEVELS = 12  # of opacity
_DARK = 0.6  # opacity from which text on a cell takes the other colour
_WRONG = colour(1)


@house_style()
def confusion_plot(
    counts: Sequence[Sequence[int]], names: Sequence[str], tasks: Sequence[int] = (), title: str = "Confusion matrix"
) -> Chart | None:
    """Share of each class (row) that is answered as each class (column); None for one class, or for too many.

    `tasks` are the numbers of classes that arrived together, in the order of the rows: lines are drawn between them.
    """
    size = len(names)
    if not 2 <= size <= MOST_CLASSES:
        return None
    shown = [shorten(clean(name), _LONGEST) for name in names] if size <= _NAMES else []
    room = room_for(shown) if shown else 34.0
    edge = Margins(left=room + 20, right=4, top=0.75 * room + 30, bottom=8)
    cell = (WIDTH - edge.left - edge.right) / size
    figure, axes = canvas(WIDTH, edge.top + edge.bottom + cell * size, edge)
    _cells(axes, counts)
    if size <= _NUMBERS:
        _numbers(axes, counts)
    for end in _ends(tasks, size):
        axes.axhline(end, color=FG, linewidth=0.8, alpha=0.5)
        axes.axvline(end, color=FG, linewidth=0.8, alpha=0.5)
    axes.set(xlim=(0, size), ylim=(size, 0), xlabel="answer")
    axes.set_ylabel("class")
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    places = range(size) if shown else range(9, size, 10)
    labels = shown or [str(place + 1) for place in places]
    font = 13 if size <= 10 else 11 if size <= 20 else 9
    turned = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if shown else {}
    axes.set_xticks([place + 0.5 for place in places], labels=labels, fontsize=font, **turned)  # type: ignore[arg-type]
    axes.set_yticks([place + 0.5 for place in places], labels=labels, fontsize=font)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=GRID)
    right = sum(row[place] for place, row in enumerate(counts))
    label = f"Confusion matrix of {size} classes: {right} of {sum(map(sum, counts))} answers are right."
    caption = "Each row is a class: the stronger the colour, the larger the share of its examples with this answer."
    if any(_ends(tasks, size)):
        caption += " Lines part the tasks."
    keys = (Key("right", HEAT), Key("wrong", _WRONG))
    least = WIDTH if 10 < size <= _NAMES else PHONE
    return Chart(title, "confusion", figure, axes, label, caption, keys, least_width=least)


def _strength(count: int, row: Sequence[int]) -> float:
    """Opacity of a cell: small shares can be seen too."""
    share = count / sum(row) if count else 0.0
    return 0.0 if not count else round((0.08 + 0.84 * share**0.6) * _LEVELS) / _LEVELS


def _cells(axes: Axes, counts: Sequence[Sequence[int]]) -> None:
    """One path for all cells of a colour: a page holds ten thousand of them."""
    groups: dict[tuple[str, float], list[tuple[int, int]]] = {}
    for place, row in enumerate(counts):
        for other, count in enumerate(row):
            if count:
                ink = HEAT if place == other else _WRONG
                groups.setdefault((ink, max(1 / _LEVELS, _strength(count, row))), []).append((place, other))
    gap = 0.03 if len(counts) <= _NUMBERS else 0.0
    for (ink, strength), cells in sorted(groups.items()):
        squares = [_square(place, other, gap) for place, other in cells]
        shape = Path.make_compound_path(*squares)
        axes.add_artist(PathPatch(shape, facecolor=ink, edgecolor="none", alpha=strength))


def _square(place: int, other: int, gap: float) -> Path:
    left, top, right, bottom = other + gap, place + gap, other + 1 - gap, place + 1 - gap
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    return Path(corners, closed=True)


def _numbers(axes: Axes, counts: Sequence[Sequence[int]]) -> None:
    longest = max(len(str(count)) for row in counts for count in row)
    font = min(14.0, 150 / len(counts), 330 / len(counts) / (0.62 * longest))
    for place, row in enumerate(counts):
        for other, count in enumerate(row):
            if count:
                dark = _strength(count, row) >= _DARK
                ink = (ON_HEAT if place == other else CARD) if dark else FG
                axes.text(
                    other + 0.5, place + 0.5, str(count), color=ink, fontsize=font, ha="center", va="center_baseline"
                )


def _ends(tasks: Sequence[int], size: int) -> list[int]:
    """Rows before which a task begins, where the tasks part all classes."""
    ends, total = [], 0
    for count in tasks:
        total += count
        ends.append(total)
    return ends[:-1] if total == size else []
