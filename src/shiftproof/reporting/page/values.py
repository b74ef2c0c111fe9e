"""The data given to the page's templates besides tables: text, positions, axes and charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.ticker import MaxNLocator

from shiftproof.core import text as plain_text
from shiftproof.core.text import MINUS
from shiftproof.reporting.table import Column, Row, Table

# Closer to an end of the axis than this, in percent, a centred label would not fit.
_NEAR_AN_END = 6.0
# The edges of a small chart, in an SVG that is 240 wide.
LEFT, RIGHT, TOP, BOTTOM = 38.0, 230.0, 24.0, 136.0
# The lower edge of a square chart, whose diagonal is at 45°.
SQUARE = TOP + RIGHT - LEFT


class Tick(NamedTuple):
    """A label of an axis, and its position."""

    position: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``, with ``ticks``."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, values: Iterable[float], count: int = 5, margin: float = 0.0) -> Axis:
        """Return an axis that spans the values, with a margin as a share of their range."""
        values = list(values)
        low, high = min(values), max(values)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
        room = margin * (high - low)
        low, high = low - room, high + room
        ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return cls(low, high, tuple(float(t) for t in ticks if low <= t <= high))

    @classmethod
    def around(cls, values: Iterable[float], count: int, within: tuple[float, float]) -> Axis:
        """Return an axis that ends on round numbers in the range ``within``."""
        inner = cls.over(values, count)
        ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(inner.low, inner.high)
        inside = [float(t) for t in ticks if within[0] <= t <= within[1]]
        return cls(min(inside[0], inner.low), max(inside[-1], inner.high), tuple(inside))

    def share(self, value: float) -> float:
        """Return the position of a value, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    def percent(self, value: float) -> float:
        """Return the position of a value, from 0 to 100, rounded to one decimal."""
        return round(100 * min(max(self.share(value), 0.0), 1.0), 1)

    def percent_ticks(self) -> list[Tick]:
        """Return the ticks; the labels at both ends stay within the axis."""
        ticks = []
        for value in self.ticks:
            position = self.percent(value)
            anchor = "start" if position < _NEAR_AN_END else "middle"
            anchor = "end" if position > 100 - _NEAR_AN_END else anchor
            ticks.append(Tick(position, short(value), anchor))
        return ticks


PERCENT = Axis(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0))


@dataclass(frozen=True)
class Frame:
    """The axes that all panels of a set share; ``bottom`` is the position of the x axis."""

    x: Axis
    y: Axis
    bottom: float = BOTTOM

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of a point in the SVG."""
        across = LEFT + (RIGHT - LEFT) * self.x.share(x)
        return round(across, 1), round(self.bottom - (self.bottom - TOP) * self.y.share(y), 1)

    def path(self, points: Iterable[tuple[float, float]]) -> str:
        """Return the SVG path through points."""
        return "M" + "L".join(f"{x:g} {y:g}" for x, y in (self.place(*point) for point in points))


def short(value: float) -> str:
    """Return a tick label; large numbers in thousands (k) or millions (M), to save room.

    >>> [short(v) for v in (1000.0, -2.5, 0.05, 50_000.0, 2.5e6)]
    ['1,000', '−2.5', '0.05', '50k', '2.5M']
    """
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1e3 else f"{value:.6g}"
    if size >= 1e4:
        text = f"{value / 1e6:,.6g}M" if size >= 1e6 else f"{value / 1e3:.6g}k"
    return text.replace("-", MINUS)


def signed(value: float, digits: int = 1) -> str:
    """Return a difference with its sign, as `core.text.signed` does, but with a real minus sign.

    >>> [signed(v) for v in (1.25, -0.34, -0.04)]
    ['+1.2', '−0.3', '0.0']
    """
    return plain_text.signed(value, digits).replace("-", MINUS)


class Mark(NamedTuple):
    """A mark at ``start`` (to ``end``) on an axis.

    ``kind`` is tick, dot, diamond, span, bar, band or zero.
    """

    kind: str
    start: float
    end: float = 0.0


class PlotRow(NamedTuple):
    """A row of a dot plot: its label and cells, its marks, and its tooltip."""

    row: Row
    marks: Sequence[Mark]
    tip: str = ""


@dataclass(frozen=True)
class DotPlot:
    """A table with a plot in each row, all over one axis; ``marks`` holds each row's marks.

    ``title`` is that of the axis, and ``tips`` are the tooltips of the plots.
    """

    table: Table
    title: str
    axis: Axis
    marks: Sequence[Sequence[Mark]]
    key: Sequence[tuple[str, str]] = ()
    tips: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        table: str,
        columns: Iterable[Column],
        rows: Sequence[PlotRow],
        title: str,
        axis: Axis,
        key: Sequence[tuple[str, str]] = (),
        **about: Any,
    ) -> DotPlot:
        """Return a dot plot of rows; ``about`` are fields of its table."""
        lines, marks, tips = zip(*rows, strict=True)
        return cls(
            Table(table, tuple(columns), lines, **about),
            *(title, axis, marks, key),
            tips if any(tips) else (),
        )

    @property
    def placed(self) -> list[list[Mark]]:
        """The marks of each row, in percent of the axis."""
        at = self.axis.percent
        return [[Mark(m.kind, at(m.start), at(m.end)) for m in marks] for marks in self.marks]


class HeatCell(NamedTuple):
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
    legend: Sequence[tuple[int, str]] = ()
    against_first: bool = False
    head: str = "Algorithm"


@dataclass(frozen=True)
class Pictures:
    """Images embedded in the page (`data:` URLs), each with a caption, under a title."""

    title: str
    images: Sequence[tuple[str, str]]


class StripRow(NamedTuple):
    """One domain of a strip chart: five positions in percent of the axis, or none, and texts."""

    label: str
    places: Sequence[float]
    note: str
    tip: str


class Strip(NamedTuple):
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


class Line(NamedTuple):
    """A curve of a panel: its ``kind`` and its SVG path."""

    kind: str
    path: str


class Point(NamedTuple):
    """A point of a panel, with an interval from ``low`` to ``high``; ``tip`` is its tooltip."""

    x: float
    y: float
    low: float
    high: float
    tip: str


class Panel(NamedTuple):
    """A small chart: learning curves of one run, whose reported step is ``selected``, or points."""

    title: str
    words: str
    lines: Sequence[Line]
    selected: tuple[float, float] | None = None
    points: Sequence[Point] = ()


@dataclass(frozen=True)
class Panels:
    """Panels with shared, titled axes, and their values as a table.

    A wide screen shows ``across`` panels side by side.
    """

    title: str
    panels: Sequence[Panel]
    across: int
    x_title: str
    y_title: str
    frame: Frame
    key: Sequence[tuple[str, str]]
    notes: Sequence[str]
    table: Table

    @property
    def x_ticks(self) -> list[Tick]:
        """The ticks of the x axis."""
        frame = self.frame
        return [Tick(frame.place(value, frame.y.low)[0], short(value)) for value in frame.x.ticks]

    @property
    def y_ticks(self) -> list[Tick]:
        """The ticks of the y axis."""
        frame = self.frame
        return [Tick(frame.place(frame.x.low, value)[1], short(value)) for value in frame.y.ticks]


class Fact(NamedTuple):
    """An entry of a list of facts."""

    name: str
    lines: Sequence[str]
    code: bool = False


# The macro of the template for each value of a block.
_KINDS = {
    Table: "table", DotPlot: "dots", HeatMap: "heat", Panels: "panels", Strips: "strips",
    Pictures: "pictures", list: "facts",
}  # fmt: skip
Value = Table | DotPlot | HeatMap | Panels | Strips | Pictures | list[Fact]


@dataclass(frozen=True)
class Block:
    """A part of a section: one of the values above, or facts, under its own heading.

    A ``folded`` block is closed until the reader opens it.
    """

    value: Value
    heading: str = ""
    folded: bool = False
    words: str = ""

    @property
    def kind(self) -> str:
        """The macro of the template that writes the value."""
        return _KINDS[type(self.value)]


def blocks(*values: Value | None) -> list[Block]:
    """Return a block for each value that there is."""
    return [Block(value) for value in values if value]


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; ``name`` is its anchor."""

    name: str
    heading: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """The whole page."""

    title: str
    sentence: str
    remarks: Sequence[str]
    figures: Sequence[tuple[str, str]]
    sections: Sequence[Section]
