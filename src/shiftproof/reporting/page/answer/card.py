"""The report card: the main metrics by held-out domain, with baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shiftproof.inference.expected import Expected, expected_score
from shiftproof.metrics import METRICS, Metric
from shiftproof.metrics.base import LOG_ODDS, OF_LABEL, SHARE, Estimate
from shiftproof.metrics.classification import additive_share, share_estimate
from shiftproof.metrics.outputs import Outputs
from shiftproof.metrics.regression import COVERAGE, COVERAGE_LEVEL
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


class _Card(NamedTuple):
    """What differs between the cards of classes and of numbers.

    Baselines are compared by a metric; `constant` is the best constant prediction.
    """

    metrics: list[Metric]
    titles: Mapping[str, str]
    by: Metric
    constant: tuple[str, Estimates]
    notes: list[str]
    about_baselines: str
    trained: str


def report_card(
    expected: Expected, baselines: Mapping[str, Expected], noun: str = "domain", label: str = ""
) -> Table:
    """Return metrics with intervals and those of baselines, one row per domain.

    The last rows are a typical domain, the worst, and the prediction interval of the next domain.
    """
    card = (_of_numbers if expected.numbers else _of_classes)(expected, noun, label)
    columns = {
        metric: metric.estimates(expected.outputs, expected.level) for metric in card.metrics
    }
    columns = {metric: found for metric, found in columns.items() if any(found.values())}
    beside = dict([card.constant])
    beside |= {name: own.estimates(card.by.name) for name, own in baselines.items()}
    rows = [
        Row(
            (domain,),
            (
                Cell(f"{len(outputs.labels):,}"),
                *(cell_of(metric, found[domain]) for metric, found in columns.items()),
                *(_plain(card.by, found.get(domain)) for found in beside.values()),
            ),
        )
        for domain, outputs in expected.outputs.items()
    ]
    scored = [*columns.items(), *((card.by, found) for found in beside.values())]
    foot = _foot(scored, len(columns), expected.level, noun) if len(rows) > 1 else []
    named = " and ".join(name.lower() for name in baselines)
    also = f" The {named} are scikit-learn's with its default settings{card.trained}."
    return Table(
        f"Scores of the model on each {noun} that it was not trained on",
        (
            Column("Rows"),
            *(Column(card.titles.get(m.name, m.heading), m.direction) for m in columns),
            *(Column(name, card.by.direction) for name in beside),
        ),
        (*rows, *foot),
        notes=(*card.notes, f"{card.about_baselines}{also if baselines else ''}"),
        heads=(f"{noun[:1].upper()}{noun[1:]} held out",),
        foot=len(foot),
    )


def _of_classes(expected: Expected, noun: str, label: str) -> _Card:
    shown = [metric for metric in map(METRICS.get, expected.metrics) if metric.in_card]
    of_two = next(iter(expected.of_classes.values())).probabilities.shape[1] == 2
    shares = [SENSITIVITY, SPECIFICITY] if of_two else []
    metrics = [*shown[:3], *shares, *shown[3:]]
    percent = [metric.heading.lower() for metric in metrics if metric.unit == SHARE]
    notes = [
        f"In percent: {', '.join(percent)}. Accuracy is the share of all rows of a {noun} that are"
        f" predicted right. {_about_intervals(expected, noun)}"
    ]
    if shares:
        second, first = (answer_of(label, class_name(expected.classes, c)) for c in (1, 0))
        notes.append(
            f"Sensitivity is the share of {second} that is found, specificity that of {first}."
        )
    constants = {
        domain: share_estimate(own.labels == np.bincount(own.labels).argmax(), expected.level)
        for domain, own in expected.of_classes.items()
    }
    return _Card(
        metrics,
        {},
        METRICS.get("accuracy"),
        (COMMONEST, constants),
        notes,
        "Baselines, in accuracy: the commonest class is always answering the one that is commonest"
        f" in that {noun}.",
        ", trained on the same rows",
    )


def _of_numbers(expected: Expected, noun: str, label: str) -> _Card:
    by = METRICS.get(compared_metric(expected))
    intercept = "calibration_intercept"  # which has the unit of an error
    metrics = [
        replace(metric, unit=OF_LABEL) if metric.name == intercept else metric
        for metric in map(METRICS.get, expected.metrics)
    ]
    unit = f"the unit of {label}" if label else "the unit of the label"
    notes = [
        f"R² is taken within a {noun}: 0 is its own mean, below 0 worse than that. MAE (the mean"
        f" size of an error), RMSE and intercept have {unit}. {_about_intervals(expected, noun)}",
        "Calibrated predictions have slope 1 and intercept 0: the mean of label less prediction.",
    ]
    if len(expected.outputs) > 1:
        notes.append(
            f"Interval coverage is the share of labels inside intervals of {COVERAGE_LEVEL:.0%}"
            f" that come from the errors in all other {nouns(noun)}."
        )
    return _Card(
        metrics,
        TITLES,
        by,
        (MEAN, mean_answers(expected).estimates(by.name)),
        notes,
        f"Baselines, in {by.heading}: the training mean is always answering the mean of the other"
        f" {nouns(noun)}, each counted alike.",
        "",
    )


def _about_intervals(expected: Expected, noun: str) -> str:
    return (
        f"Intervals of {expected.level:.0%} below a score are for its number of rows; the last line"
        f" is for how {nouns(noun)} differ."
    )


def accuracies(expected: Expected) -> dict[str, float]:
    """Return the accuracy on all rows of each domain."""
    return {each.domain: each.accuracy for each in beside_constant(expected)}


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


def cell_of(metric: Metric, own: Estimate | None) -> Cell:
    """Return the cell of a metric with its interval."""
    if own is None:
        return Cell()
    return Cell(metric.text(own.value), interval=metric.interval_text(own.low, own.high))


def _plain(metric: Metric, own: Estimate | None) -> Cell:
    return Cell() if own is None else Cell(metric.text(own.value))
