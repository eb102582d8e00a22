"""A figure as the page shows it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend, which the page writes beside the figure."""

    name: str
    colour: str  # as CSS
    dashed: bool = False
    value: str = ""
    shape: str = ""  # corners of a marker, as SVG has them


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a figure that stands for runs: where it is in pixels, whose it is, and what it says aloud."""

    x: float
    y: float
    row: str  # id of what the page tells about those runs
    label: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Inline SVG with its heading, what to see in it, and its legend."""

    title: str
    svg: str
    caption: str
    legend: tuple[Key, ...] = ()
