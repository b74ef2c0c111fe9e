"""Facts on a regression model's worst domain, and on domains where the training mean is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shiftproof.inference.expected import Expected
from shiftproof.metrics import METRICS
from shiftproof.reporting.page.answer.evidence import Evidence
from shiftproof.reporting.page.answer.lead import nouns
from shiftproof.reporting.page.answer.mean_baseline import (
    beside_mean,
    compared_metric,
    worse_than_mean,
)
from shiftproof.reporting.page.answer.worst import (
    MOST,
    PARTS,
    Loss,
    far_lines,
    lost_lines,
    scored_line,
    worst_first,
)
from shiftproof.reporting.page.values import Fact

# Mean labels that differ by fewer standard deviations than this are not mentioned.
FAR_APART = 0.5
OF_NUMBERS = Loss("r2", "points of R²", "model", {**PARTS, "level": "from a different mean label"})


def number_worst_facts(
    expected: Expected, evidence: Evidence, diagnoses: Sequence[Mapping[str, Any]] = ()
) -> list[Fact]:
    """Return facts on the worst domain, and on domains where the mean of the others is better."""
    score = expected.score(expected.metric)
    if score is None:
        return []
    worst = worst_first(score)[0]
    behind = [each.domain for each in worse_than_mean(expected)]
    return [
        Fact(
            domain,
            [
                scored_line(expected, score, domain, domain == worst, evidence.noun),
                *_mean(expected, domain, evidence.noun),
                *_bias(expected, domain),
                *_labels(expected, domain, evidence),
                *far_lines(domain, evidence),
                *lost_lines(domain, diagnoses, OF_NUMBERS),
            ],
        )
        for domain in list(dict.fromkeys([worst, *behind]))[: MOST + 1]
    ]


def _mean(expected: Expected, domain: str, noun: str) -> list[str]:
    metric = METRICS.get(compared_metric(expected))
    behind = {each.domain for each in worse_than_mean(expected)}
    for own in beside_mean(expected):
        if own.domain == domain:
            side = "better" if domain in behind else "worse"
            return [
                f"Always answering the mean of the other {nouns(noun)} would be {side}:"
                f" {metric.phrase} {metric.text(own.mean)}."
            ]
    return []


def _bias(expected: Expected, domain: str) -> list[str]:
    """Say whether predictions are too low or too high, if the mean error is clearly not 0."""
    own = expected.estimates("calibration_intercept")[domain]
    if own is None or own.low <= 0 <= own.high:
        return []
    side = "low" if own.value > 0 else "high"
    ends = sorted(map(abs, (own.low, own.high)))
    mae = METRICS.get("mae")
    said = f"{mae.text(abs(own.value))} ({mae.interval_text(*ends)})"
    return [f"Its predictions are too {side} by {said} on average."]


def _labels(expected: Expected, domain: str, evidence: Evidence) -> list[str]:
    """Say how the mean label differs from that of the other domains."""
    here = expected.numbers[domain].labels
    others = [own.labels for name, own in expected.numbers.items() if name != domain]
    if not others:
        return []
    elsewhere = float(np.mean([own.mean() for own in others]))
    spread = float(np.mean([own.std() for own in others]))
    if abs(float(here.mean()) - elsewhere) < FAR_APART * spread:
        return []
    name, text = evidence.label or "the label", METRICS.get("mae").text
    return [
        f"The mean of {name} is {text(float(here.mean()))} there; in the other"
        f" {nouns(evidence.noun)} {text(elsewhere)}."
    ]
