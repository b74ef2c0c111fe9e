"""The data given to the page's templates besides tables: text and positions, already computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftproof.reporting.table import Table


@dataclass(frozen=True)
class Mark:
    """A mark at ``start`` (to ``end``) percent of an axis.

    ``kind`` is tick, dot, diamond, span, bar, band or zero.
    """

    kind: str
    start: float
    end: float = 0.0


@dataclass(frozen=True)
class Tick:
    """A label of an axis, and its position."""

    place: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True)
class DotPlot:
    """A table with a plot in each row, all over one axis; ``marks`` holds each row's marks.

    ``tips`` are the tooltips of the plots.
    """

    table: Table
    axis: str
    ticks: Sequence[Tick]
    marks: Sequence[Sequence[Mark]]
    key: Sequence[tuple[str, str]]
    tips: Sequence[str] = ()


@dataclass(frozen=True)
class HeatCell:
    """A cell of a heat map; ``level`` is its colour from -4 to 4, or None for no colour."""

    text: str
    level: int | None
    runs: str = ""


@dataclass(frozen=True)
class HeatMap:
    """A heat map: one row per algorithm, one column per test domain, grouped by dataset.

    With ``against_first``, the other rows are compared with the first.
    """

    title: str
    groups: Sequence[tuple[str, Sequence[str]]]
    rows: Sequence[tuple[str, Sequence[HeatCell]]]
    notes: Sequence[str]
    legend: Sequence[tuple[int, str]]
    against_first: bool
    head: str = "Algorithm"


@dataclass(frozen=True)
class Pictures:
    """Images embedded in the page (`data:` URLs), each with a caption, under a title."""

    title: str
    images: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StripRow:
    """One domain of a strip chart: five positions in percent of the axis, or none, and texts."""

    label: str
    places: Sequence[float]
    note: str
    tip: str


@dataclass(frozen=True)
class Strip:
    """A small chart of one column: one row per domain, over its own axis."""

    title: str
    ticks: Sequence[Tick]
    rows: Sequence[StripRow]


@dataclass(frozen=True)
class Strips:
    """Small charts side by side."""

    strips: Sequence[Strip]
    key: Sequence[tuple[str, str]]
    notes: Sequence[str]


@dataclass(frozen=True)
class Line:
    """A curve of a panel: its ``kind`` and its SVG path."""

    kind: str
    path: str


@dataclass(frozen=True)
class Point:
    """A point of a panel, with an interval from ``low`` to ``high``; ``tip`` is its tooltip."""

    x: float
    y: float
    low: float
    high: float
    tip: str


@dataclass(frozen=True)
class Panel:
    """A small chart: learning curves of one run, whose reported step is ``selected``, or points."""

    title: str
    words: str
    lines: Sequence[Line]
    selected: tuple[float, float] | None = None
    points: Sequence[Point] = ()


@dataclass(frozen=True)
class Panels:
    """Panels with shared, titled axes, and their values as a table.

    A wide screen shows ``across`` panels side by side.  ``bottom`` is the position of the x axis.
    """

    title: str
    panels: Sequence[Panel]
    across: int
    x_title: str
    y_title: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    key: Sequence[tuple[str, str]]
    notes: Sequence[str]
    table: Table
    bottom: float


@dataclass(frozen=True)
class Fact:
    """An entry of a list of facts."""

    name: str
    lines: Sequence[str]
    code: bool = False


@dataclass(frozen=True)
class Block:
    """A part of a section: one of the values above under its own heading.

    A ``folded`` block is closed until the reader opens it.
    """

    kind: str
    value: object
    heading: str = ""
    folded: bool = False
    words: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; ``name`` is its anchor."""

    name: str
    heading: str
    blocks: Sequence[Block]
    words: str = ""


@dataclass(frozen=True)
class Page:
    """The whole page."""

    title: str
    sentence: str
    remarks: Sequence[str]
    figures: Sequence[tuple[str, str]]
    sections: Sequence[Section]
