"""Predicted numbers against labels, and their errors, by held-out domain."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.core.text import MINUS, counted, three_digits
from shiftproof.inference.expected import Expected
from shiftproof.inference.reliability import RANGE, NumberBin, errors_of, number_bins
from shiftproof.metrics.outputs import NumberOutputs, pooled
from shiftproof.reporting.page.axes import Axis, short
from shiftproof.reporting.page.curves import LEFT, RIGHT, TOP
from shiftproof.reporting.page.reliability import BOTTOM, POOLED, across
from shiftproof.reporting.page.values import DotPlot, Line, Mark, Panel, Panels, Point, Tick
from shiftproof.reporting.table import Column, Row, Table

LONG = 10_000
MOST = f"{RANGE[1] - RANGE[0]:.0%} of the labels"


def predicted_panels(
    expected: Expected, only: Sequence[str] | None = None, whole: str = POOLED
) -> Panels:
    """Plot labels over predictions for each domain and, if there are several, first for all rows.

    All panels share the same axes, and both axes have the same range.  With ``only``, draw just
    these domains; ``whole`` is the title of the panel of all rows.
    """
    found = {
        domain: number_bins(own)
        for domain, own in _parts(expected, whole).items()
        if only is None or domain in (whole, *only)
    }
    every = [each for bins in found.values() for each in bins]
    ends = [end for each in every for end in (each.predicted, each.low, each.high)]
    # Long tick labels side by side need room.
    axis = Axis.over(ends, 2 if max(map(abs, ends)) >= LONG else 3)
    rows = [
        Row.of(
            domain,
            short_number(each.predicted),
            short_number(each.label),
            f"{short_number(each.low)} to {short_number(each.high)}",
            f"{each.samples}",
        )
        for domain, bins in found.items()
        for each in bins
    ]
    columns = ("Predicted", "Label", f"{MOST}", "Samples")
    return Panels(
        "Predicted against true",
        [_panel(domain, bins, axis) for domain, bins in found.items()],
        across(len(found)),
        "Predicted",
        "Label",
        [Tick(_x(axis, value), short(value)) for value in axis.ticks],
        [Tick(_y(axis, value), short(value)) for value in axis.ticks],
        [
            ("point", f"mean label of a bin, and the range of {MOST}"),
            ("ideal", "label = predicted"),
        ],
        [
            "Samples are in up to ten bins of equal size by their prediction. Above the line labels"
            " are higher than predicted, below it lower."
        ],
        Table("Bins", tuple(map(Column, columns)), tuple(rows), heads=("Held out",)),
        BOTTOM,
    )


def errors_plot(expected: Expected, whole: str = POOLED) -> DotPlot:
    """Plot label minus prediction: one row per held-out domain, and one for all rows."""
    parts = {d: errors_of(own) for d, own in _parts(expected, whole).items()}
    if whole in parts:
        parts[whole] = parts.pop(whole)  # last
    ends = [end for each in parts.values() for end in (*each.range, each.mean)]
    axis = Axis.over([0.0, *ends], 4, margin=0.02)
    marks, rows, tips = [], [], []
    for domain, own in parts.items():
        marks.append(
            [
                Mark("zero", axis.percent(0.0)),
                Mark("span", *map(axis.percent, own.range)),
                Mark("bar", *map(axis.percent, own.quartiles)),
                Mark("dot", axis.percent(own.mean)),
            ]
        )
        texts = [short_number(value) for value in (own.mean, own.median)]
        spans = [" to ".join(map(short_number, each)) for each in (own.quartiles, own.range)]
        rows.append(Row.of(domain, *texts, *spans, f"{own.samples}"))
        tips.append(
            f"{domain}: mean error {texts[0]}, half of them {spans[0]}\n"
            f"{counted(own.samples, 'sample')}"
        )
    columns = ("Mean", "Median", "Half of the errors", f"{RANGE[1] - RANGE[0]:.0%} of the errors")
    table = Table(
        "Label less prediction",
        tuple(map(Column, (*columns, "Samples"))),
        tuple(rows),
        notes=(
            "A mean above zero: predictions of the domain are too low on average; below zero: too"
            " high.",
        ),
        heads=("Held out",),
        foot=1 if whole in parts else 0,
    )
    key = [
        ("dot", "mean"),
        ("bar", "half of the errors"),
        ("span", f"{RANGE[1] - RANGE[0]:.0%} of the errors"),
    ]
    return DotPlot(table, "Label less prediction", axis.percent_ticks(), marks, key, tips)


def short_number(value: float) -> str:
    """Return a number with three digits.

    >>> [short_number(v) for v in (0.01234, -1234.5, 3.0)]
    ['0.0123', '−1,230', '3']
    """
    return three_digits(value).replace("-", MINUS)


def _parts(expected: Expected, whole: str) -> dict[str, NumberOutputs]:
    outputs = expected.numbers
    if len(outputs) > 1:
        return {whole: pooled(list(outputs.values())), **outputs}
    return outputs


def _panel(domain: str, bins: list[NumberBin], axis: Axis) -> Panel:
    points = [
        Point(
            _x(axis, each.predicted),
            _y(axis, each.label),
            _y(axis, each.low),
            _y(axis, each.high),
            f"{domain}: predicted {short_number(each.predicted)}, label"
            f" {short_number(each.label)} ({short_number(each.low)} to {short_number(each.high)})"
            f"\n{counted(each.samples, 'sample')}",
        )
        for each in bins
    ]
    low, high = axis.low, axis.high
    path = f"M{_x(axis, low):g} {_y(axis, low):g}L{_x(axis, high):g} {_y(axis, high):g}"
    said = "; ".join(
        f"{short_number(each.predicted)} label {short_number(each.label)}" for each in bins
    )
    return Panel(
        domain, f"Labels in {domain}: predicted {said}", [Line("ideal", path)], points=points
    )


def _x(axis: Axis, value: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * axis.share(value), 1)


def _y(axis: Axis, value: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * axis.share(value), 1)
