"""The first sentence: what to expect at the next domain, and whether a constant does better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shiftproof.core.text import plural
from shiftproof.core.types import CLASSIFICATION
from shiftproof.inference.expected import Expected
from shiftproof.metrics import METRICS
from shiftproof.metrics.base import SHARE
from shiftproof.metrics.outputs import Outputs
from shiftproof.reporting.page.answer.mean_baseline import (
    compared_metric,
    mean_answers,
    worse_than_mean,
)

TIMES = ("year", "quarter", "month", "week", "day", "season", "batch", "period")


class Beside(NamedTuple):
    """The model's accuracy on a domain, and that of always predicting its commonest class."""

    domain: str
    accuracy: float
    commonest: float
    name: str


def beside_constant(expected: Expected) -> list[Beside]:
    """Compare the model with the best constant prediction on each held-out domain."""
    found = []
    for domain, own in expected.of_classes.items():
        counts = np.bincount(own.labels)
        code = int(counts.argmax())
        accuracy = float((own.probabilities.argmax(axis=1) == own.labels).mean())
        name = class_name(expected.classes, code)
        found.append(Beside(domain, accuracy, float(counts[code] / len(own.labels)), name))
    return found


def class_name(classes: tuple[str, ...], code: int) -> str:
    """Return the name of a class, or its number if names are unknown."""
    return classes[code] if classes else str(code)


def answer_of(label: str, name: str) -> str:
    """Return a predicted class in words; a number is shown with the name of the label.

    >>> answer_of("disease", "1"), answer_of("disease", "ill"), answer_of("", "1")
    ('disease = 1', "'ill'", "'1'")
    """
    bare = name.replace(".", "", 1).isdigit() or len(name) == 1
    return f"{label} = {name}" if label and bare else repr(name)


def lead(expected: Expected, noun: str = "domain", label: str = "") -> str:
    """Say what to expect at the next domain, and where a constant is better.

    The constant of a domain is its own commonest class, so the model is worse than *some* constant
    in exactly these domains.  A regression model is compared with the mean of the other domains.
    """
    score = expected.score(expected.metric)
    if score is None:
        return f"One {noun} does not show what to expect at the next."
    said = rounded(expected.metric, score.mean, *score.interval)
    if expected.metric == "mae":
        mae = METRICS.get("mae")
        ends = mae.interval_text(*score.interval)
        said = f"an error of {mae.text(score.mean)} ({ends}){f' in {label}' if label else ''}"
    place = "In" if noun in TIMES else "At"
    start = f"{place} {_article(noun)} like these expect {said}"
    compared = (
        _beside_mean(expected, noun) if expected.numbers else _compared(expected, noun, label)
    )
    return f"{start}; {compared}."


def rounded(metric: str, mean: float, low: float, high: float) -> str:
    """Return a rounded score with its interval, for a sentence.

    >>> rounded("accuracy", 0.774, 0.641, 0.86), rounded("auroc", 0.82, 0.7, 0.9)
    ('77% accuracy (64–86)', 'AUROC 0.82 (0.70–0.90)')
    """
    one = METRICS.get(metric)
    if one.unit == SHARE:
        return f"{100 * mean:.0f}% {one.phrase} ({100 * low:.0f}–{100 * high:.0f})"
    if CLASSIFICATION not in one.tasks:
        return f"{one.phrase} {one.text(mean)} ({one.interval_text(low, high)})"
    return f"{one.phrase} {mean:.2f} ({low:.2f}–{high:.2f})"


def _compared(expected: Expected, noun: str, label: str) -> str:
    found = beside_constant(expected)
    worse = [each for each in found if each.accuracy < each.commonest]
    whose = "" if expected.metric == "accuracy" else "its accuracy is "
    if not worse:
        return f"{whose or 'it is '}nowhere worse than always answering one class"
    names = {each.name for each in worse}
    what = answer_of(label, names.pop()) if len(names) == 1 else "the commonest class"
    where = f"{len(worse)} of {len(found)} {nouns(noun)}"
    return f"{whose}worse than always answering {what} in {where}"


def _beside_mean(expected: Expected, noun: str) -> str:
    metric = METRICS.get(compared_metric(expected))
    mean = mean_answers(expected).score(metric.name)
    worse, total = len(worse_than_mean(expected)), len(expected.outputs)
    better = f"better in {worse} of {total} {nouns(noun)}"
    where = f", which is {better}" if worse else ""
    if mean is None:
        return f"the mean alone is {better}"
    name = "" if metric.name == expected.metric else f"{metric.phrase} "
    return f"the mean alone gives {name}{metric.text(mean.mean)}{where}"


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def noun_of(columns: Mapping[str, str]) -> str:
    """Return the word for a domain, from the columns of a dataset.

    >>> noun_of({"domain": "hospital_id"}), noun_of({"domain": "date", "by": "year"}), noun_of({})
    ('hospital id', 'year', 'domain')
    >>> noun_of({"domain": "age", "by": "5"}), noun_of({"domain": "site,year"})
    ('age group', 'site and year')
    """
    name = " and ".join(columns.get("domain", "domain").replace("_", " ").split(","))
    by = columns.get("by", "")
    if by.isdigit():
        return f"{name} group"
    return by if by in TIMES else name


def nouns(noun: str) -> str:
    """Return the plural of the word for a domain.

    >>> nouns("hospital"), nouns("city"), nouns("batch")
    ('hospitals', 'cities', 'batches')
    """
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ch", "sh", "x", "z")) else plural(noun, 2)


def shares_of(outputs: Mapping[str, Outputs], classes: int) -> dict[str, np.ndarray]:
    """Return the share of each class in each domain."""
    return {
        domain: np.bincount(own.labels, minlength=classes) / len(own.labels)
        for domain, own in outputs.items()
    }
