"""A plot: shown in the page with points that answer, or written to files for papers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
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
from esacl.report.figures.svg import CARD, PHONE, VARIABLES, Mark, css, house_style, to_svg
from esacl.report.rows import Row

_SHARPNESS = 200  # dots to the inch of a picture in a file
_PARTS = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend: a name with its colour, its marker, and perhaps its value."""

    name: str
    ink: str
    marker: str = ""
    dashed: bool = False
    value: str = ""

    @property
    def colour(self) -> str:
        """As CSS."""
        return css(self.ink)

    @property
    def shape(self) -> str:
        """Corners of the marker, as SVG has them; empty where there is none."""
        return _corners(self.marker) if self.marker else ""

    def handle(self) -> Line2D:
        """As a file has it."""
        style: dict[str, Any] = {"linestyle": "--" if self.dashed else "" if self.marker else "-"}
        label = f"{self.name} {self.value}".strip()
        return Line2D([], [], color=self.ink, marker=self.marker or None, label=label, **style)


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of the data that stands for a row, and what it says."""

    row: Row
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
    label: str  # what it shows, for those who cannot see it
    caption: str
    legend: tuple[Key, ...] = ()
    spots: tuple[Spot, ...] = ()
    least_width: float = 0

    @property
    def scrolls(self) -> bool:
        """Whether a phone shows a part of it only."""
        return self.least_width > PHONE

    def svg(self, prefix: str, ids: Mapping[int, str] | None = None) -> str:
        """For the page; `ids` has the id of what it tells about a row, by the row's own identity."""
        height = self.figure.get_size_inches()[1] * 72
        marks: list[Mark] = []
        for spot in self.spots if ids else ():
            x, y = self.axes.transData.transform((spot.x, spot.y))
            marks.append((x, height - y, (ids or {})[id(spot.row)], f"{spot.row.label}: {spot.text}"))
        return to_svg(self.figure, self.label, f"{prefix}-{self.slug}", self.least_width, marks)


@house_style()
def save(chart: Chart, folder: Path, stem: str) -> list[Path]:
    """Write a chart as SVG and PNG in the colours of a white page; changes the chart, which is of no use afterwards."""
    chart.axes.set_title(chart.title, loc="left", fontweight="bold", pad=14)
    if chart.legend:
        below = -52 / (chart.axes.bbox.height or 1)  # pixels, as a share of the axes
        handles = [key.handle() for key in chart.legend]
        style: dict[str, Any] = {"loc": "upper left", "ncols": 2, "frameon": False, "fontsize": 12}
        chart.axes.legend(handles=handles, bbox_to_anchor=(0, below), borderaxespad=0, **style)
    chart.figure.canvas.draw()  # ticks come into being when they are drawn
    _recolour(chart.figure)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{stem}.{ending}" for ending in ("svg", "png")]
    for path, about in zip(written, ({"Date": None}, {"Software": None})):
        buffer, ending = BytesIO(), path.suffix[1:]
        paper: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.15, "facecolor": _palette()[CARD]}
        chart.figure.savefig(buffer, format=ending, metadata=about, dpi=_SHARPNESS, **paper)
        write_atomic(path, buffer.getvalue())
    return written


def _recolour(figure: Figure) -> None:
    """Real colours for those that stand for the page's."""
    for artist in figure.findobj():
        for part in _PARTS:
            read, write = getattr(artist, f"get_{part}", None), getattr(artist, f"set_{part}", None)
            if read is None or write is None:
                continue
            value = read()
            several = getattr(value, "ndim", 1) == 2  # a collection has a colour for each member
            known = several or is_color_like(value)
            inks = [_palette().get(to_hex(one)) for one in (value if several else [value])] if known else []
            if inks and None not in inks:
                write(inks if several else inks[0])


@cache
def _palette() -> dict[str, str]:
    """The colours of the page by day, by those that stand for them."""
    text = files("esacl.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    by_day = dict(re.findall(r"(--\w[\w-]*): (#[0-9a-f]{6});", text.partition("@media")[0]))
    return {sentinel: by_day[name] for sentinel, name in VARIABLES.items()}


@cache
def _corners(marker: str) -> str:
    """The outline of a marker as corners around the origin."""
    style = MarkerStyle(marker)
    outline = np.asarray(style.get_path().transformed(style.get_transform()).to_polygons()[0], dtype=float)
    return " ".join(f"{x:.2f},{-y:.2f}" for x, y in outline)
