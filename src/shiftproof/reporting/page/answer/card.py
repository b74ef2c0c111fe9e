"""The report card of a classifier: its main scores by held-out domain, with baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shiftproof.inference.estimates import Estimate, estimate, share_estimate
from shiftproof.inference.expected import Expected, expected_score
from shiftproof.learners.scores import LOSSES
from shiftproof.reporting.page.answer.lead import answer_of, beside_constant, class_name, nouns
from shiftproof.reporting.page.answer.numbers import SHARES, interval, number, title_of
from shiftproof.reporting.table import Cell, Column, Row, Table
from shiftproof.training.outputs import Outputs

CARD = ("accuracy", "balanced_accuracy", "auroc", "sensitivity", "specificity", "calibration_error")
COMMONEST = "Commonest class"


def short_card(
    expected: Expected,
    baselines: Mapping[str, Expected],
    noun: str = "domain",
    label: str = "",
) -> Table:
    """Return scores with intervals and the accuracies of baselines, one row per domain.

    The last rows are a typical domain, the worst, and the prediction interval of the next domain.
    """
    found = {metric: card_estimates(expected, metric) for metric in CARD}
    shown = [metric for metric in CARD if any(found[metric].values())]
    beside = {
        COMMONEST: _constants(expected),
        **{name: card_estimates(own, "accuracy") for name, own in baselines.items()},
    }
    rows = [
        Row(
            (domain,),
            (
                Cell(f"{len(own.labels):,}"),
                *(_cell(metric, found[metric][domain]) for metric in shown),
                *(_plain(values.get(domain)) for values in beside.values()),
            ),
        )
        for domain, own in expected.of_classes.items()
    ]
    foot = _foot(expected, found, shown, beside, noun) if len(rows) > 1 else []
    columns = [
        Column("Rows"),
        *(Column(_titled(metric), -1 if metric in LOSSES else 1) for metric in shown),
        *(Column(name, 1) for name in beside),
    ]
    title = f"Scores of the model on each {noun} that it was not trained on"
    notes = _notes(expected, shown, baselines, noun, label)
    return Table(
        title, tuple(columns), (*rows, *foot), notes=tuple(notes), heads=(_head(noun),),
        foot=len(foot),
    )  # fmt: skip


def card_estimates(expected: Expected, metric: str) -> dict[str, Estimate | None]:
    """Return a score for each domain; sensitivity and specificity need two classes."""
    return {domain: _estimate(own, metric, expected.level)
            for domain, own in expected.of_classes.items()}  # fmt: skip


def accuracies(expected: Expected) -> dict[str, float]:
    """Return the accuracy on all rows of each domain."""
    return {each.domain: each.accuracy for each in beside_constant(expected)}


def _constants(expected: Expected) -> dict[str, Estimate | None]:
    """Return the accuracy of always predicting the commonest class of each domain."""
    return {domain: share_estimate(own.labels == np.bincount(own.labels).argmax(), expected.level)
            for domain, own in expected.of_classes.items()}  # fmt: skip


def _estimate(own: Outputs, metric: str, level: float) -> Estimate | None:
    if metric not in ("sensitivity", "specificity"):
        return estimate(metric, own.probabilities, own.labels, level)
    code = 1 if metric == "sensitivity" else 0
    theirs = own.labels == code
    if own.probabilities.shape[1] != 2 or not theirs.any():
        return None
    return share_estimate(own.probabilities[theirs].argmax(axis=1) == code, level)


def _foot(
    expected: Expected,
    found: Mapping[str, Mapping[str, Estimate | None]],
    shown: Sequence[str],
    beside: Mapping[str, Mapping[str, Estimate | None]],
    noun: str,
) -> list[Row]:
    """Return the rows of a typical domain, the worst and the next.

    The typical domain is the centre of the meta-analysis that predicts the next domain, for
    baselines too, so that they can be compared.
    """
    scored = [(metric, found[metric]) for metric in shown]
    scored += [("accuracy", own) for own in beside.values()]
    worst, middle, following = [], [], []
    for metric, own in scored:
        values = [each.value for each in own.values() if each is not None]
        bad = max(values) if metric in LOSSES else min(values)
        worst.append(Cell(number(metric, bad)))
        score = expected_score(metric, own, expected.level)
        middle.append(Cell() if score is None else Cell(number(metric, score.mean)))
        following.append(Cell() if score is None else Cell(interval(metric, *score.interval)))
    following[len(shown) :] = [Cell() for _ in beside]
    return [
        Row((f"typical {noun}",), (Cell(), *middle)),
        Row((f"worst {noun}",), (Cell(), *worst)),
        Row((f"next {noun}, {expected.level:.0%}",), (Cell(), *following)),
    ]


def _notes(
    expected: Expected, shown: Sequence[str], baselines: Mapping[str, Expected], noun: str,
    label: str,
) -> list[str]:  # fmt: skip
    percent = [title_of(metric).lower() for metric in shown if metric in SHARES]
    notes = [
        f"In percent: {', '.join(percent)}. Accuracy is the share of all rows of a {noun} that are"
        f" predicted right. Intervals of {expected.level:.0%} below a score are for its number of"
        f" rows; the last line is for how {nouns(noun)} differ."
    ]
    if "sensitivity" in shown:
        second, first = (answer_of(label, class_name(expected.classes, c)) for c in (1, 0))
        notes.append(
            f"Sensitivity is the share of {second} that is found, specificity that of {first}."
        )
    named = " and ".join(name.lower() for name in baselines)
    also = (
        f" The {named} are scikit-learn's with its default settings, trained on the same rows."
        if baselines
        else ""
    )
    notes.append(
        f"Baselines, in accuracy: the commonest class is always answering the one that is commonest"
        f" in that {noun}.{also}"
    )
    return notes


def _titled(metric: str) -> str:
    return title_of(metric)


def _head(noun: str) -> str:
    return f"{noun[:1].upper()}{noun[1:]} held out"


def _cell(metric: str, own: Estimate | None) -> Cell:
    if own is None:
        return Cell()
    return Cell(number(metric, own.value), interval=interval(metric, own.low, own.high))


def _plain(own: Estimate | None) -> Cell:
    return Cell() if own is None else Cell(number("accuracy", own.value))
