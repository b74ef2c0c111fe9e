"""The report card of a regression model by held-out domain, with baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.inference.conformal import COVERAGE, COVERAGE_LEVEL
from shiftproof.inference.estimates import Estimate
from shiftproof.inference.expected import Expected
from shiftproof.learners.scores import LOSSES, TARGETS, badness
from shiftproof.reporting.page.answer.lead import nouns
from shiftproof.reporting.page.answer.mean_baseline import (
    MEAN,
    compared_metric,
    mean_answers,
    values_of,
)
from shiftproof.reporting.page.answer.numbers import interval, number, title_of
from shiftproof.reporting.table import Cell, Column, Row, Table

# The column title of each score.
CARD = {
    "r2": "R²",
    "mae": "MAE",
    "rmse": "RMSE",
    "calibration_slope": "Slope",
    "calibration_intercept": "Intercept",
    COVERAGE: "Coverage",
}


def number_card(
    expected: Expected, baselines: Mapping[str, Expected], noun: str = "domain", label: str = ""
) -> Table:
    """Return scores with intervals and the errors of baselines, one row per domain.

    The last rows are a typical domain, the worst, and the prediction interval of the next domain.
    """
    found = {metric: expected.estimates(metric) for metric in CARD}
    shown = [metric for metric in CARD if any(found[metric].values())]
    by = compared_metric(expected)
    beside = {MEAN: mean_answers(expected), **baselines}
    values = [values_of(own, by) for own in beside.values()]
    rows = [
        Row(
            (domain,),
            (
                Cell(f"{len(own.labels)}"),
                *(_cell(metric, found[metric][domain]) for metric in shown),
                *(_plain(by, each.get(domain)) for each in values),
            ),
        )
        for domain, own in expected.numbers.items()
    ]
    foot = _foot(expected, shown, list(beside.values()), noun) if len(rows) > 1 else []
    columns = [
        Column("Rows"),
        *(Column(CARD[metric], _better(metric)) for metric in shown),
        *(Column(name, _better(by)) for name in beside),
    ]
    return Table(
        f"Scores of the model on each {noun} that it was not trained on",
        tuple(columns),
        (*rows, *foot),
        notes=tuple(_notes(expected, shown, baselines, noun, label)),
        heads=(f"{noun[:1].upper()}{noun[1:]} held out",),
        foot=len(foot),
    )


def _foot(
    expected: Expected, shown: Sequence[str], beside: Sequence[Expected], noun: str
) -> list[Row]:
    """Return the rows of a typical domain, the worst and the next.

    The typical domain is the centre of the meta-analysis that predicts the next domain, for
    baselines too, so that they can be compared.
    """
    by = compared_metric(expected)
    scored = [(metric, expected) for metric in shown] + [(by, own) for own in beside]
    middle, worst = [], []
    for metric, own in scored:
        values = [each.value for each in own.estimates(metric).values() if each is not None]
        bad = max(values, key=lambda value: badness(metric, value), default=None)
        worst.append(_plain(metric, bad))
        score = own.score(metric)
        middle.append(_plain(metric, None if score is None else score.mean))
    ahead = [expected.score(metric) for metric in shown]
    following = [
        Cell() if own is None else Cell(_range(own.metric, *own.interval)) for own in ahead
    ]
    return [
        Row((f"typical {noun}",), (Cell(), *middle)),
        Row((f"worst {noun}",), (Cell(), *worst)),
        Row(
            (f"next {noun}, {expected.level:.0%}",),
            (Cell(), *following, *(Cell() for _ in beside)),
        ),
    ]


def _notes(
    expected: Expected,
    shown: Sequence[str],
    baselines: Mapping[str, Expected],
    noun: str,
    label: str,
) -> list[str]:
    unit = f"the unit of {label}" if label else "the unit of the label"
    notes = [
        f"R² is taken within a {noun}: 0 is its own mean, below 0 worse than that. MAE (the mean"
        f" size of an error), RMSE and intercept have {unit}. Intervals of {expected.level:.0%}"
        f" below a score are for its number of rows; the last line is for how {nouns(noun)}"
        " differ.",
        "Calibrated predictions have slope 1 and intercept 0: the mean of label less prediction.",
    ]
    if COVERAGE in shown:
        notes.append(
            f"Interval coverage is the share of labels inside intervals of {COVERAGE_LEVEL:.0%}"
            f" that come from the errors in all other {nouns(noun)}."
        )
    named = " and ".join(name.lower() for name in baselines)
    also = f" The {named} are scikit-learn's with its default settings." if baselines else ""
    notes.append(
        f"Baselines, in {title_of(compared_metric(expected))}: the training mean is always"
        f" answering the mean of the other {nouns(noun)}, each counted alike.{also}"
    )
    return notes


def _better(metric: str) -> int:
    return 0 if metric in TARGETS else -1 if metric in LOSSES else 1


def _cell(metric: str, own: Estimate | None) -> Cell:
    if own is None:
        return Cell()
    return Cell(number(_as(metric), own.value), interval=_range(metric, own.low, own.high))


def _range(metric: str, low: float, high: float) -> str:
    return interval(_as(metric), low, high)


def _plain(metric: str, value: float | None) -> Cell:
    return Cell() if value is None else Cell(number(_as(metric), value))


def _as(metric: str) -> str:
    """Return the metric whose format to use: an intercept has the unit of an error."""
    return "mae" if metric == "calibration_intercept" else metric
