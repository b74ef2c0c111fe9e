"""Predictions against labels: reliability, predicted numbers, errors and confusions, by domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from shiftproof.core.text import MINUS, counted, three_digits
from shiftproof.inference.expected import Expected
from shiftproof.inference.reliability import (
    RANGE,
    Bin,
    NumberBin,
    errors_of,
    number_bins,
    reliability,
)
from shiftproof.metrics.outputs import O, confusion, of_classes, pooled
from shiftproof.reporting.page.evidence import ConfidentError, Evidence
from shiftproof.reporting.page.sentences import answer_of, class_name, nouns
from shiftproof.reporting.page.values import (
    SQUARE,
    Axis,
    Block,
    DotPlot,
    Fact,
    Frame,
    HeatCell,
    HeatMap,
    Line,
    Mark,
    Panel,
    Panels,
    Pictures,
    PlotRow,
    Point,
)
from shiftproof.reporting.table import Cell, Column, Row, Table

POOLED = "all domains"
LONG = 10_000
MOST = f"{RANGE[1] - RANGE[0]:.0%} of the"
# With more classes, column names would not fit.
MOST_CLASSES = 20
# At each of these shares of a class, in percent, the colour of a cell gets stronger.
LIMITS = (2.0, 10.0, 25.0, 50.0)
# A row with more cells than MOST_CELLS shows the first few, which differ most between domains.
MOST_CELLS, FEW_CELLS = 16, 8
WARNING = (
    "A confident error can be an error of the model, or of the label: look at the {thing} itself."
)
COUNTED = " Its number counts the rows of that {noun}."


# --- probabilities and numbers --------------------------------------------------------------------
def prediction_panels(
    expected: Expected, only: Sequence[str] | None = None, whole: str = POOLED
) -> Panels:
    """Plot labels over predictions in a panel of each domain and, of several, first of all rows.

    Of classes, plot how often samples are as predicted over their probability.  With ``only``, draw
    just these domains; ``whole`` is the title of the panel of all rows.
    """
    bins, chart = (_numbers if expected.numbers else _probabilities)(expected, only, whole)
    x_name, y_name = chart.names
    frame = Frame(chart.axis, chart.axis, SQUARE)
    ends = (chart.axis.low, chart.axis.high)
    ideal = Line("ideal", frame.path(zip(ends, ends, strict=True)))
    panels, rows = [], []
    for domain, of_domain in bins.items():
        points = []
        for x, y, low, high, samples in of_domain:
            x_text, y_text, *interval = map(chart.text, (x, y, low, high))
            tip = f"{domain}: {x_name} {x_text}, {y_name} {y_text} ({' to '.join(interval)})"
            tip += f"\n{counted(samples, 'sample')}"
            points.append(
                Point(*frame.place(x, y), frame.place(x, low)[1], frame.place(x, high)[1], tip)
            )
            x_text, y_text, *interval = map(chart.in_table, (x, y, low, high))
            rows.append(Row.of(domain, x_text, y_text, chart.between.join(interval), f"{samples}"))
        pairs = "; ".join(f"{chart.text(x)} {y_name} {chart.text(y)}" for x, y, *_ in of_domain)
        words = f"{chart.subject} in {domain}: {x_name} {pairs}"
        panels.append(Panel(domain, words, [ideal], points=points))
    columns = tuple(map(Column, (*chart.titles, chart.interval, "Samples")))
    return Panels(
        chart.title,
        panels,
        _across(len(bins)),
        *chart.titles,
        frame,
        [("point", chart.points), ("ideal", chart.ideal)],
        [chart.note],
        Table("Bins", columns, tuple(rows), heads=("Held out",)),
    )


class _Chart(NamedTuple):
    """The axis and the words of a chart of labels over predictions."""

    title: str
    subject: str
    titles: tuple[str, str]
    names: tuple[str, str]
    interval: str
    points: str
    ideal: str
    note: str
    axis: Axis
    text: Callable[[float], str]
    in_table: Callable[[float], str]
    between: str


_Bins = Mapping[str, Sequence[Bin | NumberBin]]


def _probabilities(
    expected: Expected, only: Sequence[str] | None, whole: str
) -> tuple[_Bins, _Chart]:
    outputs = _with_whole(expected.of_classes, whole, only)
    bins = {domain: reliability(part, expected.level) for domain, part in outputs.items()}
    classes = expected.classes
    titles = ("Probability of the predicted class", "Share right")
    if next(iter(outputs.values())).probabilities.shape[1] == 2:
        known = len(classes) == 2 and len(classes[1]) < 12
        name = f"class {classes[1]}" if known else "second class"
        titles = (f"Probability of {name}", f"Share of {name}")
    return bins, _Chart(
        *("Reliability", "Reliability", titles, ("probability", "observed"), "Interval"),
        f"samples of a bin, interval of {expected.level:.0%}",
        "calibrated",
        "Samples are in ten equal bins by probability. Above the line they are as predicted more"
        " often than their probability says, below it less often. Bins of few samples have long"
        " intervals.",
        Axis(0.0, 1.0, (0.0, 0.5, 1.0)),
        "{:.2f}".format,
        "{:.3f}".format,
        "–",
    )


def _numbers(expected: Expected, only: Sequence[str] | None, whole: str) -> tuple[_Bins, _Chart]:
    outputs = _with_whole(expected.numbers, whole, only)
    bins = {domain: number_bins(part) for domain, part in outputs.items()}
    ends = [end for part in bins.values() for x, _, low, high, _ in part for end in (x, low, high)]
    return bins, _Chart(
        *("Predicted against true", "Labels", ("Predicted", "Label"), ("predicted", "label")),
        f"{MOST} labels",
        f"mean label of a bin, and the range of {MOST} labels",
        "label = predicted",
        "Samples are in up to ten bins of equal size by their prediction. Above the line labels are"
        " higher than predicted, below it lower.",
        # Long tick labels side by side need room.
        Axis.over(ends, 2 if max(map(abs, ends)) >= LONG else 3),
        *(short_number, short_number, " to "),
    )


def _with_whole(
    outputs: Mapping[str, O], whole: str, only: Sequence[str] | None = None
) -> dict[str, O]:
    """Return the outputs, of several domains after those of all rows; with ``only``, of these."""
    if len(outputs) < 2:
        return dict(outputs)
    parts = {domain: part for domain, part in outputs.items() if only is None or domain in only}
    return {whole: pooled(list(outputs.values())), **parts}


def _across(panels: int) -> int:
    """Return the number of panels per row: at most five, with rows as full as possible.

    >>> [_across(n) for n in (2, 5, 6, 7, 10, 11)]
    [2, 5, 3, 4, 5, 4]
    """
    if panels <= 5:
        return panels
    return min((5, 4, 3), key=lambda wide: (-panels % wide, -wide))


def errors_plot(expected: Expected, whole: str = POOLED) -> DotPlot:
    """Plot label minus prediction: one row per held-out domain, and one for all rows."""
    parts = {d: errors_of(errors) for d, errors in _with_whole(expected.numbers, whole).items()}
    if whole in parts:
        parts[whole] = parts.pop(whole)  # last
    rows = []
    for domain, errors in parts.items():
        texts = [short_number(value) for value in (errors.mean, errors.median)]
        spans = [" to ".join(map(short_number, ends)) for ends in (errors.quartiles, errors.range)]
        rows.append(
            PlotRow(
                Row.of(domain, *texts, *spans, f"{errors.samples}"),
                [
                    Mark("zero", 0.0),
                    Mark("span", *errors.range),
                    Mark("bar", *errors.quartiles),
                    Mark("dot", errors.mean),
                ],
                f"{domain}: mean error {texts[0]}, half of them {spans[0]}\n"
                f"{counted(errors.samples, 'sample')}",
            )
        )
    ends = [end for errors in parts.values() for end in (*errors.range, errors.mean)]
    note = (
        "A mean above zero: predictions of the domain are too low on average; below zero: too high."
    )
    return DotPlot.of(
        "Label less prediction",
        map(Column, ("Mean", "Median", "Half of the errors", f"{MOST} errors", "Samples")),
        rows,
        "Label less prediction",
        Axis.over([0.0, *ends], 4, margin=0.02),
        [("dot", "mean"), ("bar", "half of the errors"), ("span", f"{MOST} errors")],
        notes=(note,),
        heads=("Held out",),
        foot=int(whole in parts),
    )


def short_number(value: float) -> str:
    """Return a number with three digits.

    >>> [short_number(v) for v in (0.01234, -1234.5, 3.0)]
    ['0.0123', '−1,230', '3']
    """
    return three_digits(value).replace("-", MINUS)


# --- classes --------------------------------------------------------------------------------------
def confusion_blocks(expected: Expected, noun: str, label: str) -> list[Block]:
    """Return one row per domain for two classes; for more, a pooled map and folded domains."""
    count = next(iter(expected.of_classes.values())).probabilities.shape[1]
    if count == 2:
        return [Block(two_classes(expected, noun, label))]
    table = confusion_table(expected)
    if table is None:
        return []
    return [Block(pooled_map(expected, noun)), Block(table, f"By {noun}", folded=True)]


def confusion_table(expected: Expected) -> Table | None:
    """Return counts of predicted classes by domain and class; None if there are many classes."""
    outputs = of_classes(expected.outputs, "a confusion matrix")
    count = next(iter(outputs.values())).probabilities.shape[1]
    if count > MOST_CLASSES:
        return None
    classes = [class_name(expected.classes, code) for code in range(count)]
    rows = [
        Row((domain,), (Cell(name), *(Cell(f"{cell}") for cell in counts)))
        for domain, part in outputs.items()
        for name, counts in zip(classes, confusion(part), strict=True)
    ]
    columns = (Column("Class", words=True), *(Column(f"as {name}") for name in classes))
    return Table("Samples by class and predicted class", columns, tuple(rows), heads=("Held out",))


def two_classes(expected: Expected, noun: str, label: str) -> Table:
    """Return the right and wrong predictions of both classes, one row per domain."""
    rows = []
    for domain, part in expected.of_classes.items():
        (right0, wrong0), (wrong1, right1) = confusion(part)
        rows.append(Row.of(domain, *map(str, (right0, wrong0, right1, wrong1))))
    columns = [
        Column(f"{answer_of(label, class_name(expected.classes, code))}, {how}", better)
        for code in (0, 1)
        for how, better in (("right", 0), ("wrong", -1))
    ]
    title = "Rows of each class that are predicted right and wrong"
    return Table(title, tuple(columns), tuple(rows), heads=(f"{noun[:1].upper()}{noun[1:]}",))


def pooled_map(expected: Expected, noun: str) -> HeatMap:
    """Return the share of each class that is predicted as each class, over all domains."""
    counts = confusion(pooled(list(expected.of_classes.values())))
    names = [class_name(expected.classes, code) for code in range(len(counts))]
    rows = []
    for code, row in enumerate(counts):
        cells = []
        for other, count in enumerate(row):
            share = 100 * count / max(sum(row), 1)
            strength = sum(share >= limit for limit in LIMITS)
            cells.append(HeatCell(f"{share:.0f}", strength if other == code else -strength))
        rows.append((names[code], cells))
    notes = [
        f"In percent of each class (a row), over all {nouns(noun)}. Blue: right; orange: wrong."
    ]
    groups = [("", [f"as {name}" for name in names])]
    return HeatMap("What each class is predicted as", groups, rows, notes, head="Class")


def error_blocks(evidence: Evidence) -> list[Block]:
    """Return the most confident errors as a list of rows or a sheet of images, if there are any."""
    if not evidence.errors:
        return []
    if all(error.image for error in evidence.errors):
        images = [
            (error.image, f"{error.domain}: {_predicted(error, evidence)}")
            for error in evidence.errors
        ]
        return [Block(Pictures("", images), words=WARNING.format(thing="image"))]
    words = WARNING.format(thing="row") + COUNTED.format(noun=evidence.noun)
    facts = [
        Fact(
            f"{error.domain}, row {error.row}",
            [f"{_predicted(error, evidence)}.", *([_cells(error)] if error.cells else [])],
        )
        for error in evidence.errors
    ]
    return [Block(facts, words=words)]


def _predicted(error: ConfidentError, evidence: Evidence) -> str:
    true, predicted = (answer_of(evidence.label, n) for n in (error.label, error.predicted))
    return f"{true}, predicted {predicted} with probability {error.probability:.0%}"


def _cells(error: ConfidentError) -> str:
    cells = error.cells if len(error.cells) <= MOST_CELLS else error.cells[:FEW_CELLS]
    more = len(error.cells) - len(cells)
    texts = [f"{name}\u00a0{value}" for name, value in cells]
    return " · ".join(texts + [f"and {more} more"] * (more > 0))
