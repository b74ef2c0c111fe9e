"""What the page's templates are given, beside tables: text and positions, nothing to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftproof.reporting.table import Table


@dataclass(frozen=True)
class Mark:
    """Something at ``start`` (to ``end``) percent of an axis.

    It is a tick, dot, diamond, span, bar, band or zero.
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
    """A table whose rows have a picture each, all over one axis: ``marks`` row by row.

    ``tips`` say what each picture shows, when it is pointed at.
    """

    table: Table
    axis: str
    ticks: Sequence[Tick]
    marks: Sequence[Sequence[Mark]]
    key: Sequence[tuple[str, str]]
    tips: Sequence[str] = ()


@dataclass(frozen=True)
class HeatCell:
    """``level`` from -4 to 4 is the colour; None has no colour."""

    text: str
    level: int | None
    runs: str = ""


@dataclass(frozen=True)
class HeatMap:
    """Rows of algorithms over columns of test domains, which belong to datasets.

    With ``against_first``, the others are compared with the first row.
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
    """Images of the page itself (`data:` addresses), each with its words, under a title."""

    title: str
    images: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StripRow:
    """One domain of a strip chart: five places in percent of the axis, or none; and words."""

    label: str
    places: Sequence[float]
    note: str
    tip: str


@dataclass(frozen=True)
class Strip:
    """A small chart of one column: a row a domain, over an axis of its own."""

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
    """A curve of a panel: which ``kind`` of accuracy, and an SVG path."""

    kind: str
    path: str


@dataclass(frozen=True)
class Point:
    """A point of a panel, with an interval from ``low`` to ``high``; ``tip`` says what it shows."""

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
    """Panels over the same axes, which have titles, with their values as a table.

    On a wide screen, ``across`` of them are side by side.  ``bottom`` is where the x axis lies.
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
    """A line of a list of facts."""

    name: str
    lines: Sequence[str]
    code: bool = False


@dataclass(frozen=True)
class Block:
    """A part of a section: one of the values above under its own heading.

    A ``folded`` one is closed until the reader opens it.
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
