"""Reliability diagrams: how often samples of a given probability are as predicted, by domain."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.core.text import counted
from shiftproof.inference.expected import Expected
from shiftproof.inference.reliability import Bin, reliability
from shiftproof.metrics.outputs import of_classes, pooled
from shiftproof.reporting.page.axes import short
from shiftproof.reporting.page.curves import LEFT, RIGHT, TOP
from shiftproof.reporting.page.values import Line, Panel, Panels, Point, Tick
from shiftproof.reporting.table import Column, Row, Table

POOLED = "all domains"
# Diagrams are square, so the diagonal is at 45°.
BOTTOM = TOP + RIGHT - LEFT
TICKS = (0.0, 0.5, 1.0)


def reliability_panels(
    expected: Expected, only: Sequence[str] | None = None, whole: str = POOLED
) -> Panels:
    """Return a diagram of each domain and, if there are several, one of all rows before them.

    With ``only``, draw just these domains; ``whole`` is the title of the diagram of all rows.
    """
    outputs = of_classes(expected.outputs, "a reliability diagram")
    if len(outputs) > 1:
        shown = {domain: own for domain, own in outputs.items() if only is None or domain in only}
        outputs = {whole: pooled(list(outputs.values())), **shown}
    found = {domain: reliability(own, expected.level) for domain, own in outputs.items()}
    x_title, y_title = _titles(expected)
    rows = [
        Row.of(
            domain,
            f"{each.predicted:.3f}",
            f"{each.observed:.3f}",
            f"{each.low:.3f}–{each.high:.3f}",
            f"{each.samples}",
        )
        for domain, bins in found.items()
        for each in bins
    ]
    columns = (x_title, y_title, "Interval", "Samples")
    return Panels(
        "Reliability",
        [_panel(domain, bins) for domain, bins in found.items()],
        across(len(found)),
        x_title,
        y_title,
        [Tick(_x(value), short(value)) for value in TICKS],
        [Tick(_y(value), short(value)) for value in TICKS],
        [("point", f"samples of a bin, interval of {expected.level:.0%}"), ("ideal", "calibrated")],
        [
            "Samples are in ten equal bins by probability. Above the line they are as predicted"
            " more often than their probability says, below it less often. Bins of few samples have"
            " long intervals."
        ],
        Table("Bins", tuple(map(Column, columns)), tuple(rows), heads=("Held out",)),
        BOTTOM,
    )


def across(panels: int) -> int:
    """Return the number of panels per row: at most five, with rows as full as possible.

    >>> [across(n) for n in (2, 5, 6, 7, 10, 11)]
    [2, 5, 3, 4, 5, 4]
    """
    if panels <= 5:
        return panels
    return min((5, 4, 3), key=lambda wide: (-panels % wide, -wide))


def _titles(expected: Expected) -> tuple[str, str]:
    """Return the axis titles: for the second of two classes, or else for the predicted class."""
    classes = expected.classes
    first = next(iter(of_classes(expected.outputs, "a reliability diagram").values()))
    two = first.probabilities.shape[1] == 2
    if not two:
        return "Probability of the predicted class", "Share right"
    name = f"class {classes[1]}" if len(classes) == 2 and len(classes[1]) < 12 else "second class"
    return f"Probability of {name}", f"Share of {name}"


def _panel(domain: str, bins: list[Bin]) -> Panel:
    points = [
        Point(
            _x(each.predicted),
            _y(each.observed),
            _y(each.low),
            _y(each.high),
            f"{domain}: probability {each.predicted:.2f}, observed {each.observed:.2f}"
            f" ({each.low:.2f} to {each.high:.2f})\n{counted(each.samples, 'sample')}",
        )
        for each in bins
    ]
    ideal = Line("ideal", f"M{_x(0):g} {_y(0):g}L{_x(1):g} {_y(1):g}")
    said = "; ".join(f"{each.predicted:.2f} observed {each.observed:.2f}" for each in bins)
    return Panel(domain, f"Reliability in {domain}: probability {said}", [ideal], points=points)


def _x(value: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * value, 1)


def _y(value: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * value, 1)
