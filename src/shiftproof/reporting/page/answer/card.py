"""The report card: the main metrics by held-out domain, with baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from shiftproof.core.types import CLASSIFICATION
from shiftproof.inference.expected import Expected, expected_score
from shiftproof.metrics import METRICS, Metric
from shiftproof.metrics.base import LOG_ODDS, OF_LABEL, SHARE, Estimate
from shiftproof.metrics.classification import additive_share, share_estimate
from shiftproof.metrics.coverage import COVERAGE, COVERAGE_LEVEL
from shiftproof.metrics.outputs import Outputs
from shiftproof.reporting.page.answer.lead import answer_of, beside_constant, class_name, nouns
from shiftproof.reporting.page.answer.mean_baseline import MEAN, compared_metric, mean_answers
from shiftproof.reporting.table import Cell, Column, Row, Table

COMMONEST = "Commonest class"
# Short column titles.
TITLES = {"calibration_slope": "Slope", "calibration_intercept": "Intercept", COVERAGE: "Coverage"}

Estimates = Mapping[str, Estimate | None]


def _share_found(name: str, code: int) -> Metric:
    """Return the share of the rows of one of two classes that is predicted as such."""

    def right(own: Outputs) -> np.ndarray | None:
        theirs = own.labels == code
        if own.probabilities.shape[1] != 2 or not theirs.any():
            return None
        return np.asarray(own.predicted[theirs] == code)

    def score(own: Outputs) -> float | None:
        return None if (theirs := right(own)) is None else float(theirs.mean())

    def additive(own: Outputs) -> tuple[float, float] | None:
        return None if (theirs := right(own)) is None else additive_share(theirs)

    return Metric(score, name, scale=LOG_ODDS, additive=additive, unit=SHARE)


SENSITIVITY, SPECIFICITY = _share_found("sensitivity", 1), _share_found("specificity", 0)


def card_metrics(expected: Expected) -> list[Metric]:
    """Return the metrics of the card; those of other packages come last."""
    metrics = [METRICS.get(name) for name in expected.metrics]
    if expected.numbers:  # an intercept has the unit of an error
        intercept = "calibration_intercept"
        return [replace(m, unit=OF_LABEL) if m.name == intercept else m for m in metrics]
    shown = [metric for metric in metrics if metric.in_card]
    return [*shown[:3], SENSITIVITY, SPECIFICITY, *shown[3:]]


def report_card(
    expected: Expected, baselines: Mapping[str, Expected], noun: str = "domain", label: str = ""
) -> Table:
    """Return metrics with intervals and those of baselines, one row per domain.

    Baselines are compared by accuracy or by an error.  The last rows are a typical domain, the
    worst, and the prediction interval of the next domain.
    """
    columns = {metric: metric.estimates(expected.outputs, expected.level)
               for metric in card_metrics(expected)}  # fmt: skip
    columns = {metric: found for metric, found in columns.items() if any(found.values())}
    by = METRICS.get(compared_metric(expected) if expected.numbers else "accuracy")
    beside = {name: own.estimates(by.name) for name, own in baselines.items()}
    if expected.numbers:
        beside = {MEAN: mean_answers(expected).estimates(by.name), **beside}
    else:
        beside = {COMMONEST: _constants(expected), **beside}
    rows = [
        Row(
            (domain,),
            (
                Cell(f"{len(own.labels):,}"),
                *(cell_of(metric, found[domain]) for metric, found in columns.items()),
                *(_plain(by, found.get(domain)) for found in beside.values()),
            ),
        )
        for domain, own in expected.outputs.items()
    ]
    scored = [*columns.items(), *((by, found) for found in beside.values())]
    foot = _foot(scored, len(columns), expected.level, noun) if len(rows) > 1 else []
    short = TITLES if expected.numbers else {}
    return Table(
        f"Scores of the model on each {noun} that it was not trained on",
        (
            Column("Rows"),
            *(Column(short.get(m.name, m.heading), m.direction) for m in columns),
            *(Column(name, by.direction) for name in beside),
        ),
        (*rows, *foot),
        notes=(
            *_notes(expected, list(columns), noun, label),
            _baselines(by, baselines, noun),
        ),
        heads=(f"{noun[:1].upper()}{noun[1:]} held out",),
        foot=len(foot),
    )


def accuracies(expected: Expected) -> dict[str, float]:
    """Return the accuracy on all rows of each domain."""
    return {each.domain: each.accuracy for each in beside_constant(expected)}


def _constants(expected: Expected) -> dict[str, Estimate | None]:
    """Return the accuracy of always predicting the commonest class of each domain."""
    return {domain: share_estimate(own.labels == np.bincount(own.labels).argmax(), expected.level)
            for domain, own in expected.of_classes.items()}  # fmt: skip


def _foot(
    scored: Sequence[tuple[Metric, Estimates]], shown: int, level: float, noun: str
) -> list[Row]:
    """Return the rows of a typical domain, the worst and the next.

    The typical domain is the centre of the meta-analysis that predicts the next domain, for
    baselines too, so that they can be compared.  Only the first `shown` have a next domain.
    """
    middle, worst, following = [], [], []
    for number, (metric, found) in enumerate(scored):
        values = [estimate.value for estimate in found.values() if estimate is not None]
        worst.append(Cell(metric.text(max(values, key=metric.loss))) if values else Cell())
        score = expected_score(metric, found, level)
        middle.append(Cell() if score is None else Cell(metric.text(score.mean)))
        ends = "" if score is None else metric.interval_text(*score.interval)
        following.append(Cell(ends) if ends and number < shown else Cell())
    return [
        Row((f"typical {noun}",), (Cell(), *middle)),
        Row((f"worst {noun}",), (Cell(), *worst)),
        Row((f"next {noun}, {level:.0%}",), (Cell(), *following)),
    ]


def _notes(expected: Expected, shown: Sequence[Metric], noun: str, label: str) -> list[str]:
    said = (
        f"Intervals of {expected.level:.0%} below a score are for its number of rows; the last line"
        f" is for how {nouns(noun)} differ."
    )
    if expected.numbers:
        unit = f"the unit of {label}" if label else "the unit of the label"
        notes = [
            f"R² is taken within a {noun}: 0 is its own mean, below 0 worse than that. MAE (the"
            f" mean size of an error), RMSE and intercept have {unit}. {said}",
            "Calibrated predictions have slope 1 and intercept 0: the mean of label less"
            " prediction.",
        ]
        if COVERAGE in {metric.name for metric in shown}:
            notes.append(
                f"Interval coverage is the share of labels inside intervals of {COVERAGE_LEVEL:.0%}"
                f" that come from the errors in all other {nouns(noun)}."
            )
        return notes
    percent = [metric.heading.lower() for metric in shown if metric.unit == SHARE]
    notes = [
        f"In percent: {', '.join(percent)}. Accuracy is the share of all rows of a {noun} that are"
        f" predicted right. {said}"
    ]
    if SENSITIVITY in shown:
        second, first = (answer_of(label, class_name(expected.classes, c)) for c in (1, 0))
        notes.append(
            f"Sensitivity is the share of {second} that is found, specificity that of {first}."
        )
    return notes


def _baselines(by: Metric, baselines: Mapping[str, Expected], noun: str) -> str:
    """Say what the columns of baselines are."""
    of_classes = CLASSIFICATION in by.tasks
    constant = (
        f"the commonest class is always answering the one that is commonest in that {noun}."
        if of_classes
        else f"the training mean is always answering the mean of the other {nouns(noun)}, each"
        " counted alike."
    )
    named = " and ".join(name.lower() for name in baselines)
    also = f" The {named} are scikit-learn's with its default settings" if baselines else ""
    rows = ", trained on the same rows." if of_classes else "."
    name = by.phrase if of_classes else by.heading
    return f"Baselines, in {name}: {constant}{also + rows if also else ''}"


def cell_of(metric: Metric, own: Estimate | None) -> Cell:
    """Return the cell of a metric with its interval."""
    if own is None:
        return Cell()
    return Cell(metric.text(own.value), interval=metric.interval_text(own.low, own.high))


def _plain(metric: Metric, own: Estimate | None) -> Cell:
    return Cell() if own is None else Cell(metric.text(own.value))
