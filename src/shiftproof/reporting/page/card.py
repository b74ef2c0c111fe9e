"""The report card: metrics by held-out domain, with baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shiftproof.inference.expected import Expected, expected_score
from shiftproof.metrics import METRICS, Metric
from shiftproof.metrics.base import LOG_ODDS, OF_LABEL, SHARE, Estimate
from shiftproof.metrics.classification import additive_share
from shiftproof.metrics.outputs import Outputs, pooled
from shiftproof.metrics.regression import COVERAGE, COVERAGE_LEVEL
from shiftproof.reporting.page.sentences import (
    answer_of,
    class_name,
    compared_metric,
    constant_answers,
    nouns,
)
from shiftproof.reporting.table import Cell, Column, Row, Table

# Short column titles.
TITLES = {"calibration_slope": "Slope", "calibration_intercept": "Intercept", COVERAGE: "Coverage"}

Estimates = Mapping[str, Estimate | None]


def _share_found(name: str, code: int) -> Metric:
    """Return the share of the rows of one of two classes that is predicted as such."""

    def right(outputs: Outputs) -> np.ndarray:
        return np.asarray(outputs.predicted[outputs.labels == code] == code)

    def score(outputs: Outputs) -> float | None:
        return float(right(outputs).mean()) if (outputs.labels == code).any() else None

    return Metric(
        score, name, scale=LOG_ODDS, unit=SHARE, additive=lambda part: additive_share(right(part))
    )


SENSITIVITY, SPECIFICITY = _share_found("sensitivity", 1), _share_found("specificity", 0)


class _Card(NamedTuple):
    """What differs between the cards of classes and of numbers."""

    metrics: list[Metric]
    titles: Mapping[str, str]
    constant: str
    notes: list[str]
    trained: str = ""


def report_card(
    expected: Expected,
    baselines: Mapping[str, Expected] | None = None,
    noun: str = "domain",
    label: str = "",
    *,
    every: bool = False,
) -> Table:
    """Return metrics with intervals and those of baselines, one row per domain.

    The last rows are a typical domain, the worst, and the prediction interval of the next domain;
    with `every`, the columns are all metrics, and the last row is that of all rows together.
    """
    baselines = baselines or {}
    card = (_of_numbers if expected.numbers else _of_classes)(expected, noun, label, every)
    by = METRICS.get(compared_metric(expected))
    columns = [
        (metric, estimates)
        for metric in card.metrics
        if any((estimates := metric.estimates(expected.outputs, expected.level)).values())
    ]
    others = {card.constant: constant_answers(expected), **baselines}
    beside = [(by, baseline.estimates(by.name)) for baseline in others.values()]
    rows = [
        Row(
            (domain,),
            (
                Cell(f"{len(outputs.labels):,}"),
                *(_cell(metric, estimates[domain]) for metric, estimates in columns),
                *(_cell(by, estimates.get(domain), interval=False) for _, estimates in beside),
            ),
        )
        for domain, outputs in expected.outputs.items()
    ]
    foot = _foot([*columns, *beside], len(columns), expected, noun) if len(rows) > 1 else []
    if foot and every:
        whole = pooled(list(expected.outputs.values()))
        cells = [
            Cell() if metric.jointly else _cell(metric, metric.estimate(whole, expected.level))
            for metric, _ in columns
        ]
        empty = (Cell(),) * len(beside)
        foot.append(Row((f"all {nouns(noun)}",), (Cell(f"{len(whole.labels):,}"), *cells, *empty)))
    named = " and ".join(name.lower() for name in baselines)
    also = f" The {named} are scikit-learn's with its default settings{card.trained}."
    first, *notes, last = card.notes
    first += (
        f" Intervals of {expected.level:.0%} below a score are for its number of rows; the line of"
        f" the next {noun} is for how {nouns(noun)} differ."
    )
    return Table(
        f"Scores of the model on each {noun} that it was not trained on",
        (
            Column("Rows"),
            *(Column(card.titles.get(m.name, m.heading), m.direction) for m, _ in columns),
            *(Column(name, by.direction) for name in others),
        ),
        (*rows, *foot),
        notes=(first, *notes, last + also * bool(baselines)),
        heads=(f"{noun[:1].upper()}{noun[1:]} held out",),
        foot=len(foot),
    )


def _of_classes(expected: Expected, noun: str, label: str, every: bool) -> _Card:
    chosen = [m for m in map(METRICS.get, expected.metrics) if every or m.in_card]
    of_two = next(iter(expected.of_classes.values())).probabilities.shape[1] == 2
    shares = [SENSITIVITY, SPECIFICITY] if of_two else []
    metrics = [*chosen[:3], *shares, *chosen[3:]]
    percent = [metric.heading.lower() for metric in metrics if metric.unit == SHARE]
    notes = [
        f"In percent: {', '.join(percent)}. Accuracy is the share of all rows of a {noun} that are"
        " predicted right."
    ]
    if shares:
        second, first = (answer_of(label, class_name(expected.classes, c)) for c in (1, 0))
        notes.append(
            f"Sensitivity is the share of {second} that is found, specificity that of {first}."
        )
    if every:
        notes.append(
            "AUROC, F1, average precision and balanced accuracy are means over classes. Calibrated"
            " probabilities have slope 1, intercept 0 and error 0."
        )
    notes.append(
        "Baselines, in accuracy: the commonest class is always answering the one that is commonest"
        f" in that {noun}."
    )
    return _Card(metrics, {}, "Commonest class", notes, ", trained on the same rows")


def _of_numbers(expected: Expected, noun: str, label: str, every: bool) -> _Card:
    intercept = "calibration_intercept"  # which has the unit of an error
    metrics = [
        replace(metric, unit=OF_LABEL) if metric.name == intercept else metric
        for metric in map(METRICS.get, expected.metrics)
    ]
    unit = f"the unit of {label}" if label else "the unit of the label"
    notes = [
        f"R² is taken within a {noun}: 0 is its own mean, below 0 worse than that. MAE (the mean"
        f" size of an error), RMSE and intercept have {unit}.",
        "Calibrated predictions have slope 1 and intercept 0: the mean of label less prediction.",
    ]
    if len(expected.outputs) > 1:
        notes.append(
            f"Interval coverage is the share of labels inside intervals of {COVERAGE_LEVEL:.0%}"
            f" that come from the errors in all other {nouns(noun)}."
        )
    notes.append(
        f"Baselines, in {METRICS.get(compared_metric(expected)).heading}: the training mean is"
        f" always answering the mean of the other {nouns(noun)}, each counted alike."
    )
    return _Card(metrics, {} if every else TITLES, "Training mean", notes)


def _foot(
    scored: Sequence[tuple[Metric, Estimates]], count: int, expected: Expected, noun: str
) -> list[Row]:
    """Return the rows of a typical domain, the worst and the next.

    The typical domain is the centre of the meta-analysis that predicts the next domain, for
    baselines too, so that they can be compared.  Only the first `count` have a next domain.
    """
    middle, worst, following = [], [], []
    for number, (metric, estimates) in enumerate(scored):
        values = [estimate.value for estimate in estimates.values() if estimate is not None]
        worst.append(Cell(metric.text(max(values, key=metric.loss))) if values else Cell())
        score = expected_score(metric, estimates, expected.level)
        middle.append(Cell() if score is None else Cell(metric.text(score.mean)))
        ends = "" if score is None else metric.interval_text(*score.interval)
        following.append(Cell(ends) if ends and number < count else Cell())
    return [
        Row((f"typical {noun}",), (Cell(), *middle)),
        Row((f"worst {noun}",), (Cell(), *worst)),
        Row((f"next {noun}, {expected.level:.0%}",), (Cell(), *following)),
    ]


def _cell(metric: Metric, estimate: Estimate | None, *, interval: bool = True) -> Cell:
    if estimate is None:
        return Cell()
    ends = metric.interval_text(estimate.low, estimate.high) if interval else ""
    return Cell(metric.text(estimate.value), interval=ends)
