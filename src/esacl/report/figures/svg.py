"""A matplotlib figure as SVG that belongs to the page: its colours, its font, no ids that clash.

Figures are drawn with sentinel colours, which become CSS variables here: the page can then be read in light and dark.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 480  # pixels of a figure at its natural size: legible when a phone shows it at two thirds
PHONE = 348  # pixels of a picture on a phone that is 390 wide: what needs more is scrolled there
SERIES = 8  # colours of methods before they repeat
SHADES = 11  # steps from the first task to the last

_NAMES = ("--fg", "--muted", "--grid", "--card", "--heat", "--on-heat")
_VARIABLES = (*_NAMES, *(f"--c{i}" for i in range(SERIES)), *(f"--t{i}" for i in range(SHADES)))
_SENTINELS = tuple(f"#01fe{i:02x}" for i in range(len(_VARIABLES)))
VARIABLES = dict(zip(_SENTINELS, _VARIABLES))
"""The page's variable of each colour that figures are drawn with."""

FG, MUTED, GRID, CARD, HEAT, ON_HEAT = _SENTINELS[: len(_NAMES)]

Mark = tuple[float, float, str, str]
"""A place that stands for runs: x and y in pixels, the id of what the page tells about them, and what it says aloud."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "esacl",
    "text.parse_math": False,  # a name may hold a dollar sign
    "font.family": ["DejaVu Sans"],  # only measured with: the page's own font is drawn
    "font.size": 14,
    "text.color": FG,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 1,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.major.pad": 6,
    "ytick.major.pad": 6,
    "lines.solid_capstyle": "round",
    "figure.dpi": 72,  # one point is one pixel of the page
}


@dataclass(frozen=True, slots=True)
class Margins:
    """Pixels around the axes."""

    left: float = 62
    right: float = 12
    top: float = 12
    bottom: float = 48


@contextmanager
def house_style() -> Iterator[None]:
    """The look of every figure, whatever the user's own matplotlib settings; those come back afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def canvas(width: float, height: float, margins: Margins | None = None) -> tuple[Figure, Axes]:
    """A figure of this many pixels with one pair of axes inside its margins."""
    edge = margins or Margins()
    figure = Figure(figsize=(width / 72, height / 72))
    inner = (width - edge.left - edge.right) / width, (height - edge.top - edge.bottom) / height
    return figure, figure.add_axes((edge.left / width, edge.bottom / height, *inner))


def colour(index: int) -> str:
    """The colour of a method, always the same for the same index."""
    return _SENTINELS[len(_NAMES) + index % SERIES]


def shade(task: int, tasks: int) -> str:
    """The colour of a task: its place between the first and the last."""
    return _SENTINELS[len(_NAMES) + SERIES + round(task / max(1, tasks - 1) * (SHADES - 1))]


def css(sentinel: str) -> str:
    """The page's name for a colour."""
    return f"var({VARIABLES[sentinel]})"


@house_style()
def to_svg(figure: Figure, label: str, prefix: str, least_width: float = 0, marks: Sequence[Mark] = ()) -> str:
    """Inline SVG with an accessible label; `prefix` makes its ids unique in the page."""
    buffer = BytesIO()
    with warnings.catch_warnings():
        # The browser has the glyphs that the font measured with has not.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    _rewrite(root, prefix)
    _prune(root)
    width, height = (figure.get_size_inches() * 72).round(1)
    role = "group" if marks else "img"  # what is inside an image cannot be reached
    frame = {"viewBox": f"0 0 {width:g} {height:g}", "role": role, "aria-label": label}
    frame["style"] = f"max-width:{width:g}px" + (f";min-width:{least_width:g}px" if least_width else "")
    root.attrib.clear()
    root.attrib.update(frame)
    for x, y, row, words in marks:
        at = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "10", "class": "mark", "data-row": row}
        ElementTree.SubElement(root, "circle", {**at, "role": "img", "tabindex": "-1", "aria-label": words})
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _rewrite(root: Any, prefix: str) -> None:
    """Plain names, page colours, short numbers, and ids only where something refers to them."""
    used = {
        found for element in root.iter() for value in element.attrib.values() for found in _REFERENCE.findall(value)
    }
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        element.attrib.clear()
        for name, value in attributes.items():
            if name == "id":
                if value in used:
                    element.set(name, f"{prefix}-{value}")
            elif not value.startswith("rotate(-0 "):
                element.set(name, _value(name, value, prefix))
        if not (element.text or "").strip():  # line breaks between elements mean nothing
            element.text = None
        element.tail = None


def _value(name: str, value: str, prefix: str) -> str:
    if name in _COORDINATES:
        return " ".join(_NUMBER.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value).split())
    if name == "style":
        return _SENTINEL.sub(lambda found: css(found[0]), ";".join(filter(None, map(_declaration, value.split(";")))))
    return _REFERENCE.sub(lambda found: found[0].replace("#", f"#{prefix}-"), value)


def _declaration(text: str) -> str:
    """One declaration of a style, without a font family; older matplotlib writes size and family together."""
    name, _, value = (part.strip() for part in text.partition(":"))
    if name == "font":
        size = next(word for word in value.split() if word.endswith("px"))
        weight = value.split()[0]
        return f"font-size:{size}" + (f";font-weight:{weight}" if weight.isdigit() else "")
    return "" if name in ("", "font-family") else f"{name}:{value}"


def _prune(parent: Any) -> None:
    """Remove what describes the file, would style the whole page, or is an empty wrapper."""
    children = list(parent)
    for child in children:
        parent.remove(child)
    for child in children:
        _prune(child)
        if child.tag in ("metadata", "style") or (child.tag in ("g", "defs") and len(child) == 0):
            continue
        if child.tag == "g" and not child.attrib:
            parent.extend(child)
        else:
            parent.append(child)


_COORDINATES = {"d", "x", "y", "transform", "width", "height"}
_REFERENCE = re.compile(r"(?:^#|url\(#)([^)]+)\)?")
_NUMBER = re.compile(r"-?[0-9]+\.[0-9]+(?:e-?[0-9]+)?")
_SENTINEL = re.compile("#01fe[0-9a-f]{2}")


def _local(name: str) -> str:
    return name.rpartition("}")[2]
