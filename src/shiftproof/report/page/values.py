"""What the page's templates are given: text and positions, nothing left to compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A number as printed; ``mark`` is best, second or nothing.

    ``runs`` says where it comes from, a trial each and separated by semicolons: trial seed,
    accuracy and, of a single run, hyper-parameter seed and step.
    """

    text: str
    error: str = ""
    sign: str = ""
    mark: str = ""
    runs: str = ""


@dataclass(frozen=True)
class Column:
    """``better`` says whether high (1) or low (-1) numbers are good, or neither (0).

    A column of ``words`` is written from the left.
    """

    title: str
    better: int = 1
    words: bool = False


@dataclass(frozen=True)
class Row:
    """A row and whose it is."""

    label: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Table:
    """A table that is sorted by the column ``by`` (by no column if it is None)."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    by: int | None = None
    corner: str = "Algorithm"


@dataclass(frozen=True)
class Mark:
    """Something at ``start`` (to ``end``) percent of a track: tick, dot, span or band."""

    kind: str
    start: float
    end: float = 0.0


@dataclass(frozen=True)
class Tick:
    """A number on an axis, at ``place`` of its picture."""

    place: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True)
class TrackRow:
    """A row of numbers with a picture of them between label and numbers."""

    label: str
    marks: Sequence[Mark]
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Track:
    """A table whose rows have a picture each, all over one axis."""

    title: str
    axis: str
    ticks: Sequence[Tick]
    columns: Sequence[Column]
    rows: Sequence[TrackRow]
    notes: Sequence[str] = ()
    key: Sequence[tuple[str, str]] = ()
    by: int | None = None
    corner: str = "Algorithm"


@dataclass(frozen=True)
class HeatCell:
    """``level`` from -4 to 4 is the colour, or None where there is nothing to compare."""

    text: str
    level: int | None
    runs: str = ""


@dataclass(frozen=True)
class HeatMap:
    """Rows of algorithms over columns of test domains, which belong to datasets.

    ``against_first`` says that the first row is what the others are compared with.
    """

    title: str
    groups: Sequence[tuple[str, Sequence[str]]]
    rows: Sequence[tuple[str, Sequence[HeatCell]]]
    notes: Sequence[str]
    legend: Sequence[tuple[int, str]]
    against_first: bool


@dataclass(frozen=True)
class Line:
    """A curve of a panel: which ``kind`` of accuracy, and an SVG path."""

    kind: str
    path: str


@dataclass(frozen=True)
class Panel:
    """Learning curves of one run; ``chosen`` is where its reported step lies."""

    title: str
    words: str
    lines: Sequence[Line]
    chosen: tuple[float, float] | None


@dataclass(frozen=True)
class Panels:
    """The panels of a dataset over the same axes, with their values as a table.

    ``across`` of them stand side by side where there is room.
    """

    title: str
    panels: Sequence[Panel]
    across: int
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    key: Sequence[tuple[str, str]]
    notes: Sequence[str]
    table: Table


@dataclass(frozen=True)
class Fact:
    """A line of a list of facts."""

    name: str
    lines: Sequence[str]
    code: bool = False


@dataclass(frozen=True)
class Block:
    """A part of a section: one of the values above under its own heading.

    ``folded`` ones are opened by the reader.
    """

    kind: str
    value: object
    heading: str = ""
    folded: bool = False
    words: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; ``name`` is what links to it."""

    name: str
    heading: str
    blocks: Sequence[Block]
    words: str = ""


@dataclass(frozen=True)
class Page:
    """The whole."""

    title: str
    sentence: str
    remarks: Sequence[str]
    figures: Sequence[tuple[str, str]]
    sections: Sequence[Section]
