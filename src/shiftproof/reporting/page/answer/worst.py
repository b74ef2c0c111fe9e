"""Facts on the worst domain, and on domains where a constant prediction is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shiftproof.core.text import MINUS, counted
from shiftproof.inference.expected import Expected, ExpectedScore
from shiftproof.metrics import METRICS
from shiftproof.reporting.page.answer.evidence import Evidence
from shiftproof.reporting.page.answer.lead import (
    answer_of,
    beside_constant,
    class_name,
    nouns,
    shares_of,
)
from shiftproof.reporting.page.answer.mean_baseline import (
    beside_mean,
    compared_metric,
    worse_than_mean,
)
from shiftproof.reporting.page.values import Fact

MOST = 3
# Parts of a loss smaller than this, in points, are not mentioned.
SMALLEST_PART = 1.0
# Smaller shares of far rows are not mentioned; of rows like the training rows, 1% are far.
MUCH = 0.05


class Loss(NamedTuple):
    """The wording of the sentence on what is lost: the score of the diagnosis, and its parts."""

    score: str
    unit: str
    model: str
    parts: Mapping[str, str]


PARTS = {
    "inputs": "on inputs that are rarer elsewhere",
    "unseen": "on inputs that hardly occur elsewhere",
    "meaning": "from concept shift",
}
OF_CLASSES = Loss(
    "accuracy",
    "points of accuracy",
    "classifier",
    {**PARTS, "label_shares": "from different class shares"},
)


def worst_facts(
    expected: Expected, evidence: Evidence, diagnoses: Sequence[Mapping[str, Any]] = ()
) -> list[Fact]:
    """Return facts on the worst domain, and on domains where a constant prediction is better."""
    score = expected.score(expected.metric)
    if score is None:
        return []
    worst = worst_first(score)[0]
    behind = [each for each in beside_constant(expected) if each.accuracy < each.commonest]
    behind.sort(key=lambda each: each.accuracy - each.commonest)
    chosen = dict.fromkeys([worst, *(each.domain for each in behind)])
    facts = []
    for domain in list(chosen)[: MOST + 1]:
        lines = [
            scored_line(expected, score, domain, domain == worst, evidence.noun),
            *_constant(expected, domain, evidence),
            *_classes(expected, domain, evidence),
            *far_lines(domain, evidence),
            *lost_lines(domain, diagnoses),
        ]
        facts.append(Fact(domain, lines))
    return facts


def worst_first(score: ExpectedScore) -> list[str]:
    """Return the domains by score, the worst first."""
    values, loss = score.estimates, score.metric.loss
    return sorted(values, key=lambda domain: -loss(values[domain].value))


def scored_line(
    expected: Expected, score: ExpectedScore, domain: str, worst: bool, noun: str
) -> str:
    """Say how a domain scored, and whether it is the worst of all."""
    own, metric = score.estimates.get(domain), score.metric
    if own is None:
        return f"{metric.phrase} is undefined here."
    said = f"{metric.text(own.value)}{metric.sign} ({metric.interval_text(own.low, own.high)})"
    rows = counted(len(expected.outputs[domain].labels), "row")
    title = metric.phrase
    which = f"The lowest {title} of all {nouns(noun)}" if worst else title[:1].upper() + title[1:]
    if worst and metric.direction <= 0:
        which = f"The worst {title} of all {nouns(noun)}"
    return f"{which}: {said} on {rows}."


def _constant(expected: Expected, domain: str, evidence: Evidence) -> list[str]:
    own = next(each for each in beside_constant(expected) if each.domain == domain)
    what = answer_of(evidence.label, own.name)
    gap = 100 * (own.commonest - own.accuracy)
    if gap > 0:
        return [
            f"Always answering {what} would be right for {own.commonest:.1%}, {gap:.1f} points"
            " more."
        ]
    same = "as often" if round(gap, 1) == 0 else "less often"
    return [f"Always answering {what} would be right {same} ({own.commonest:.1%})."]


def _classes(expected: Expected, domain: str, evidence: Evidence) -> list[str]:
    """Say which class is most over-represented, compared with the mean of the other domains."""
    count = next(iter(expected.of_classes.values())).probabilities.shape[1]
    shares = shares_of(expected.of_classes, count)
    others = [own for name, own in shares.items() if name != domain]
    if not others:
        return []
    elsewhere = np.mean(others, axis=0)
    code = int((shares[domain] - elsewhere).argmax())
    here, there = shares[domain][code], elsewhere[code]
    if 100 * (here - there) < 5:
        return []
    what = answer_of(evidence.label, class_name(expected.classes, code))
    return [f"{here:.0%} of its rows are {what}; in the other {nouns(evidence.noun)} {there:.0%}."]


def far_lines(domain: str, evidence: Evidence) -> list[str]:
    """Say how many rows of a domain are unlike those of the other domains, if many are."""
    share = evidence.far.get(domain)
    if share is None or share < MUCH:
        return []
    return [f"{share:.0%} of its rows are unlike all rows of the other {nouns(evidence.noun)}."]


def lost_lines(
    domain: str, diagnoses: Sequence[Mapping[str, Any]], how: Loss = OF_CLASSES
) -> list[str]:
    """Say what a simple model loses if it is not trained on the domain, and where."""
    for diagnosis in diagnoses:
        for drop in diagnosis.get("drops", ()):
            if drop["domain"] != domain or not drop.get(how.score):
                continue
            lost = drop[how.score]["lost"]
            low, high = lost["interval"]
            parts = {name: drop[how.score][name]["value"] for name in how.parts}
            large = sorted(
                (name for name, value in parts.items() if value >= SMALLEST_PART),
                key=lambda name: -parts[name],
            )
            where = ", ".join(f"{parts[name]:.1f} {how.parts[name]}" for name in large)
            said = f"{lost['value']:.1f} {how.unit} there ({low:.1f} to {high:.1f})"
            return [
                f"If it is held out, a simple {how.model} loses {said.replace('-', MINUS)}"
                f"{': ' + where if where else ''}."
            ]
    return []


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
