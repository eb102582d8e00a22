"""A plot of a study: shown in the page with points that answer, or written to files for papers."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle

from esacl.files import write_atomic
from esacl.report.figures.drawing import Drawing, Key, Mark
from esacl.report.figures.svg import CARD, css, house_style, to_svg, variables
from esacl.report.sheet import Line

_SHARPNESS = 200  # dots to the inch of a picture in a file
_PARTS = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


@dataclass(frozen=True, slots=True)
class Sign:
    """An entry of the legend: a name with its colour and marker."""

    name: str
    ink: str
    marker: str = ""
    dashed: bool = False

    def key(self) -> Key:
        """As the page writes it."""
        return Key(self.name, css(self.ink), self.dashed, shape=_corners(self.marker) if self.marker else "")

    def handle(self) -> Line2D:
        """As a file has it."""
        look: dict[str, Any] = {"linestyle": "--" if self.dashed else "" if self.marker else "-"}
        return Line2D([], [], color=self.ink, marker=self.marker or None, label=self.name, **look)


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of the data that stands for a line, and what it says."""

    line: Line
    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One plot, drawn but not yet written in any format."""

    title: str
    slug: str
    figure: Figure
    axes: Axes
    label: str
    caption: str
    signs: tuple[Sign, ...] = ()
    spots: tuple[Spot, ...] = field(default=())
    least_width: float = 0

    def drawing(self, prefix: str, rows: dict[int, str]) -> Drawing:
        """For the page; `rows` has the id of what it tells about a line, by the line's own identity."""
        height = self.figure.get_size_inches()[1] * 72
        marks = []
        for spot in self.spots:
            x, y = self.axes.transData.transform((spot.x, spot.y))
            marks.append(Mark(x, height - y, rows[id(spot.line)], f"{spot.line.label}: {spot.text}"))
        with house_style():
            svg = to_svg(self.figure, self.label, f"{prefix}-{self.slug}", self.least_width, marks)
        return Drawing(self.title, svg, self.caption, tuple(sign.key() for sign in self.signs))


def save(chart: Chart, folder: Path, stem: str) -> list[Path]:
    """Write a chart as SVG and PNG in the colours of a white page; changes the chart, which is of no use afterwards."""
    written = []
    with house_style():
        chart.axes.set_title(chart.title, loc="left", fontweight="bold", pad=14)
        if chart.signs:
            below = -52 / (chart.axes.bbox.height or 1)  # pixels, as a share of the axes
            look: dict[str, Any] = {"loc": "upper left", "ncols": 2, "frameon": False, "fontsize": 12}
            handles = [sign.handle() for sign in chart.signs]
            chart.axes.legend(handles=handles, bbox_to_anchor=(0, below), borderaxespad=0, **look)
        chart.figure.canvas.draw()  # ticks come into being when they are drawn
        _recolour(chart.figure)
        folder.mkdir(parents=True, exist_ok=True)
        for ending in ("svg", "png"):
            buffer = BytesIO()
            about = {"Date": None} if ending == "svg" else {"Software": None}
            paper: dict[str, Any] = {
                "bbox_inches": "tight",
                "pad_inches": 0.15,
                "facecolor": _palette()[CARD],
                "dpi": _SHARPNESS,
            }
            chart.figure.savefig(buffer, format=ending, metadata=about, **paper)
            path = folder / f"{stem}.{ending}"
            write_atomic(path, buffer.getvalue())
            written.append(path)
    return written


def families_shown(families: Iterable[Any], order: Sequence[Any]) -> tuple[Sign, ...]:
    """The legend of families, in their order."""
    there = set(families)
    return tuple(Sign(family.name, family.ink, family.marker) for family in order if family in there)


def _recolour(figure: Figure) -> None:
    """Real colours for those that stand for the page's."""
    for artist in figure.findobj():
        for part in _PARTS:
            read, write = getattr(artist, f"get_{part}", None), getattr(artist, f"set_{part}", None)
            if read is None or write is None:
                continue
            value = read()
            several = getattr(value, "ndim", 1) == 2  # a collection has a colour for each member
            inks = [_palette().get(to_hex(one)) for one in (value if several else [value])] if _is_colour(value) else []
            if inks and None not in inks:
                write(inks if several else inks[0])


def _is_colour(value: Any) -> bool:
    return getattr(value, "ndim", 1) == 2 or is_color_like(value)


@cache
def _palette() -> dict[str, str]:
    """The colours of the page by day, by those that stand for them."""
    text = files("esacl.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    by_day = dict(re.findall(r"(--\w[\w-]*): (#[0-9a-f]{6});", text.partition("@media")[0]))
    return {sentinel: by_day[name] for sentinel, name in variables().items()}


@cache
def _corners(marker: str) -> str:
    """The outline of a marker as corners around the origin."""
    style = MarkerStyle(marker)
    outline = np.asarray(style.get_path().transformed(style.get_transform()).to_polygons()[0], dtype=float)
    return " ".join(f"{x:.2f},{-y:.2f}" for x, y in outline)
