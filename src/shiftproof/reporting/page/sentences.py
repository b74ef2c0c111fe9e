"""Sentences on a model: what to expect at the next domain, and facts on the worst domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from shiftproof.core.text import MINUS, counted, plural
from shiftproof.core.types import CLASSIFICATION
from shiftproof.inference.expected import Expected, ExpectedScore
from shiftproof.metrics import METRICS
from shiftproof.metrics.base import SHARE
from shiftproof.metrics.outputs import AnyOutputs, Outputs
from shiftproof.reporting.page.evidence import Evidence
from shiftproof.reporting.page.values import Fact

TIMES = ("year", "quarter", "month", "week", "day", "season", "batch", "period")
MOST = 3
# Parts of a loss smaller than this, in points, are not mentioned.
SMALLEST_PART = 1.0
# Smaller shares of far rows are not mentioned; of rows like the training rows, 1% are far.
MUCH = 0.05
# Class shares that differ by less, and mean labels by fewer standard deviations, are not mentioned.
LEAST_SHARE, LEAST_DEVIATIONS = 0.05, 0.5


# --- words ----------------------------------------------------------------------------------------
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


def answer_of(label: str, name: str) -> str:
    """Return a predicted class in words; a number is shown with the name of the label.

    >>> answer_of("disease", "1"), answer_of("disease", "ill"), answer_of("", "1")
    ('disease = 1', "'ill'", "'1'")
    """
    bare = name.replace(".", "", 1).isdigit() or len(name) == 1
    return f"{label} = {name}" if label and bare else repr(name)


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


# --- the first sentence ---------------------------------------------------------------------------
def lead(expected: Expected, noun: str = "domain", label: str = "") -> str:
    """Say what to expect at the next domain, and where a constant is better.

    The constant of a domain is its own commonest class, so the model is worse than *some* constant
    in exactly these domains.  A regression model is compared with the mean of the other domains.
    """
    score = expected.score(expected.metric)
    if score is None:
        return f"One {noun} does not show what to expect at the next."
    scored = rounded(expected.metric, score.mean, *score.interval)
    if expected.metric == "mae":
        mae = METRICS.get("mae")
        ends = mae.interval_text(*score.interval)
        scored = f"an error of {mae.text(score.mean)} ({ends}){f' in {label}' if label else ''}"
    start = "In" if noun in TIMES else "At"
    article = "an" if noun[:1].lower() in "aeiou" else "a"
    behind = [beside for beside in beside_constant(expected) if beside.worse]
    where = f"in {len(behind)} of {len(expected.outputs)} {nouns(noun)}"
    compare = _beside_mean if expected.numbers else _beside_class
    return (
        f"{start} {article} {noun} like these expect {scored};"
        f" {compare(expected, behind, where, label)}."
    )


def _beside_class(expected: Expected, behind: Sequence[Beside], where: str, label: str) -> str:
    whose = "" if expected.metric == "accuracy" else "its accuracy is "
    if not behind:
        return f"{whose or 'it is '}nowhere worse than always answering one class"
    names = {beside.name for beside in behind}
    what = answer_of(label, names.pop()) if len(names) == 1 else "the commonest class"
    return f"{whose}worse than always answering {what} {where}"


def _beside_mean(expected: Expected, behind: Sequence[Beside], where: str, _: str) -> str:
    metric = METRICS.get(compared_metric(expected))
    mean = constant_answers(expected).score(metric.name)
    if mean is None:
        return f"the mean alone is better {where}"
    name = "" if metric.name == expected.metric else f"{metric.phrase} "
    better = f", which is better {where}" if behind else ""
    return f"the mean alone gives {name}{metric.text(mean.mean)}{better}"


# --- the worst domains ----------------------------------------------------------------------------
class Loss(NamedTuple):
    """The wording of the sentence on what is lost: the score of the diagnosis, and its parts."""

    score: str
    unit: str
    parts: Mapping[str, str]


_PARTS = {
    "inputs": "on inputs that are rarer elsewhere",
    "unseen": "on inputs that hardly occur elsewhere",
    "meaning": "from concept shift",
}
OF_CLASSES = Loss(
    "accuracy", "points of accuracy", {**_PARTS, "label_shares": "from different class shares"}
)
OF_NUMBERS = Loss("r2", "points of R²", {**_PARTS, "level": "from a different mean label"})


def worst_facts(
    expected: Expected, evidence: Evidence, diagnoses: Sequence[Mapping[str, Any]] = ()
) -> list[Fact]:
    """Return facts on the worst domain, and on domains where a constant prediction is better."""
    score = expected.score(expected.metric)
    if score is None:
        return []
    worst = worst_first(score)[0]
    compared = {beside.domain: beside for beside in beside_constant(expected)}
    behind = sorted((b for b in compared.values() if b.worse), key=lambda beside: -beside.behind)
    facts = []
    for domain in list(dict.fromkeys([worst, *(b.domain for b in behind)]))[: MOST + 1]:
        lines = [_scored(expected, score, domain, domain == worst, evidence.noun)]
        if domain in compared:
            lines.append(_constant(expected, compared[domain], evidence))
        lines += (_mean_label if expected.numbers else _commonest)(expected, domain, evidence)
        lines += [*_far(domain, evidence), *_lost(expected, domain, diagnoses)]
        facts.append(Fact(domain, lines))
    return facts


def worst_first(score: ExpectedScore) -> list[str]:
    """Return the domains by score, the worst first."""
    values, loss = score.estimates, score.metric.loss
    return sorted(values, key=lambda domain: -loss(values[domain].value))


def _scored(expected: Expected, score: ExpectedScore, domain: str, worst: bool, noun: str) -> str:
    """Say how a domain scored, and whether it is the worst of all."""
    estimate, metric = score.estimates.get(domain), score.metric
    if estimate is None:
        return f"{metric.phrase} is undefined here."
    interval = metric.interval_text(estimate.low, estimate.high)
    scored = f"{metric.text(estimate.value)}{metric.sign} ({interval})"
    rows = counted(len(expected.outputs[domain].labels), "row")
    title = metric.phrase
    which = f"{title[:1].upper()}{title[1:]}"
    if worst:
        which = f"The {'lowest' if metric.direction > 0 else 'worst'} {title} of all {nouns(noun)}"
    return f"{which}: {scored} on {rows}."


def _constant(expected: Expected, beside: Beside, evidence: Evidence) -> str:
    metric = METRICS.get(compared_metric(expected))
    what = f"the mean of the other {nouns(evidence.noun)}"
    if not expected.numbers:
        what = answer_of(evidence.label, beside.name)
    side = "better" if beside.worse else "worse" if beside.behind < 0 else "as good"
    scored = f"{metric.phrase} {metric.text(beside.constant)}{metric.sign}"
    return f"Always answering {what} would be {side}: {scored}."


def shares_of(outputs: Mapping[str, Outputs]) -> dict[str, np.ndarray]:
    """Return the share of each class in each domain."""
    classes = next(iter(outputs.values())).probabilities.shape[1]
    return {
        domain: np.bincount(part.labels, minlength=classes) / len(part.labels)
        for domain, part in outputs.items()
    }


def _commonest(expected: Expected, domain: str, evidence: Evidence) -> Iterator[str]:
    """Say which class is most over-represented, compared with the mean of the other domains."""
    shares = shares_of(expected.of_classes)
    if others := [share for name, share in shares.items() if name != domain]:
        elsewhere = np.mean(others, axis=0)
        code = int((shares[domain] - elsewhere).argmax())
        here, there = shares[domain][code], elsewhere[code]
        what = answer_of(evidence.label, class_name(expected.classes, code))
        if here - there >= LEAST_SHARE:
            other = nouns(evidence.noun)
            yield f"{here:.0%} of its rows are {what}; in the other {other} {there:.0%}."


def _mean_label(expected: Expected, domain: str, evidence: Evidence) -> Iterator[str]:
    """Say whether predictions are biased, and how the mean label differs from other domains."""
    yield from _biased(expected, domain)
    if others := [part.labels for name, part in expected.numbers.items() if name != domain]:
        here = float(expected.numbers[domain].labels.mean())
        there = float(np.mean([labels.mean() for labels in others]))
        spread = float(np.mean([labels.std() for labels in others]))
        if abs(here - there) >= LEAST_DEVIATIONS * spread:
            name, text = evidence.label or "the label", METRICS.get("mae").text
            yield (
                f"The mean of {name} is {text(here)} there; in the other"
                f" {nouns(evidence.noun)} {text(there)}."
            )


def _biased(expected: Expected, domain: str) -> Iterator[str]:
    """Say whether predictions are too low or too high, if the mean error is clearly not 0."""
    estimate = expected.estimates("calibration_intercept")[domain]
    if estimate is not None and not estimate.low <= 0 <= estimate.high:
        mae = METRICS.get("mae")
        ends = mae.interval_text(*sorted(map(abs, (estimate.low, estimate.high))))
        side = "low" if estimate.value > 0 else "high"
        error = mae.text(abs(estimate.value))
        yield f"Its predictions are too {side} by {error} ({ends}) on average."


def _far(domain: str, evidence: Evidence) -> Iterator[str]:
    """Say how many rows of a domain are unlike those of the other domains, if many are."""
    share = evidence.far.get(domain)
    if share is not None and share >= MUCH:
        yield f"{share:.0%} of its rows are unlike all rows of the other {nouns(evidence.noun)}."


def _lost(expected: Expected, domain: str, diagnoses: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say what a simple model loses if it is not trained on the domain, and where."""
    how = OF_NUMBERS if expected.numbers else OF_CLASSES
    drops = (drop for diagnosis in diagnoses for drop in diagnosis.get("drops", ()))
    loss = next((d[how.score] for d in drops if d["domain"] == domain and d.get(how.score)), None)
    if loss is not None:
        low, high = loss["lost"]["interval"]
        parts = [(loss[part]["value"], words) for part, words in how.parts.items()]
        large = sorted((part for part in parts if part[0] >= SMALLEST_PART), key=lambda p: -p[0])
        where = ", ".join(f"{value:.1f} {words}" for value, words in large)
        amount = f"{loss['lost']['value']:.1f} {how.unit} there ({low:.1f} to {high:.1f})"
        yield (
            f"If it is held out, a simple model loses {amount.replace('-', MINUS)}"
            f"{': ' + where if where else ''}."
        )


class Beside(NamedTuple):
    """The score of the model on a domain and that of a constant, which is a class or the mean."""

    domain: str
    model: float
    constant: float
    name: str
    behind: float

    @property
    def worse(self) -> bool:
        """Whether the constant is better than the model."""
        return self.behind > 0


def compared_metric(expected: Expected) -> str:
    """Return the metric to compare with: accuracy or, of numbers, the one shown or the MAE."""
    # A constant has no calibration slope, and the mean of the others no interval.
    if not expected.numbers:
        return "accuracy"
    return "mae" if METRICS.get(expected.metric).has_target else expected.metric


def beside_constant(expected: Expected) -> list[Beside]:
    """Compare the model with a constant on each held-out domain where the score is defined."""
    metric = METRICS.get(compared_metric(expected))
    constants = constant_answers(expected).outputs
    compared = []
    for domain, outputs in expected.outputs.items():
        model = metric.score(outputs)
        constant = metric.score(constants[domain]) if domain in constants else None
        if model is not None and constant is not None:
            behind = metric.loss(model) - metric.loss(constant)
            name = "the mean"
            if domain in expected.of_classes:
                name = class_name(expected.classes, int(np.bincount(outputs.labels).argmax()))
            compared.append(Beside(domain, model, constant, name, behind))
    return compared


def constant_answers(expected: Expected) -> Expected:
    """Return the outputs of always predicting the constant, on each held-out domain."""
    outputs: dict[str, AnyOutputs] = {}
    for domain, classes in expected.of_classes.items():
        commonest = np.bincount(classes.labels).argmax()
        answer = np.arange(classes.probabilities.shape[1]) == commonest
        answers = np.tile(answer.astype(np.float64), (len(classes.labels), 1))
        outputs[domain] = classes._replace(probabilities=answers)
    means = {domain: float(classes.labels.mean()) for domain, classes in expected.numbers.items()}
    for domain, numbers in expected.numbers.items():
        if others := [mean for name, mean in means.items() if name != domain]:
            answers = np.full(len(numbers.labels), fmean(others))
            outputs[domain] = numbers._replace(predicted=answers)
    return replace(expected, outputs=outputs, metric=compared_metric(expected), at_least=None)


def class_name(classes: tuple[str, ...], code: int) -> str:
    """Return the name of a class, or its number if names are unknown."""
    return classes[code] if classes else str(code)
