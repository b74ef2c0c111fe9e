"""Metrics of a trained model on labelled samples of new domains, and what was expected of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shiftproof.core.errors import DataError, nearest
from shiftproof.core.text import counted, listed, quoted, three_digits
from shiftproof.data.base import Progress, silent
from shiftproof.data.input_forms import Samples
from shiftproof.inference.expected import Expected
from shiftproof.inference.model import TrainedModel
from shiftproof.metrics import METRICS
from shiftproof.metrics.base import scores
from shiftproof.metrics.outputs import AnyOutputs, NumberOutputs, Outputs, confusion


class _Metrics:
    """Metrics on one domain; a field `outputs` holds the predictions behind them."""

    def to_json(self) -> dict[str, Any]:
        """Return the metrics by name, as JSON values."""
        return {name: value for name, value in vars(self).items() if name != "outputs"}


@dataclass(frozen=True)
class DomainMetrics(_Metrics):
    """The metrics on one domain.

    The standard error of `accuracy` is √(a(1−a)/n).  `risk` is the mean of −log p(label) over the
    samples of known classes, and `far` the share of samples unlike the training domains (None for
    a private model).  `unknown` is the number of samples whose class the model does not know;
    they count as wrong.  `confusion` [label][predicted] counts the other samples, `scores` are
    their scores (see `shiftproof.metrics`), and `outputs` the predictions behind them.
    """

    domain: str
    trained_on: bool
    samples: int
    accuracy: float
    standard_error: float
    risk: float | None
    far: float | None
    unknown: int
    confusion: list[list[int]]
    scores: dict[str, float | None]
    outputs: Outputs = field(repr=False, compare=False)


@dataclass(frozen=True)
class NumberMetrics(_Metrics):
    """The metrics on one domain.

    `standard_error` is the standard error of `mae` in `scores`, `far` the share of samples unlike
    the training domains (None for a private model), and `outputs` the predictions behind `scores`.
    """

    domain: str
    trained_on: bool
    samples: int
    scores: dict[str, float | None]
    standard_error: float
    far: float | None
    target: str
    outputs: NumberOutputs = field(repr=False, compare=False)


def metrics_by_domain(
    model: TrainedModel,
    parts: Sequence[Samples],
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> tuple[Sequence[DomainMetrics | NumberMetrics], list[str]]:
    """Return the metrics on each domain, and notes on samples left out."""
    notes = [note for part in parts for note in part.notes]
    labelled = []
    for part in parts:
        for domain, samples in part.by_domain().items():
            if samples.labels is None:
                raise DataError("there are no labels to compare the predictions with")
            known = [i for i, label in enumerate(samples.labels) if label is not None]
            if missing := len(samples) - len(known):
                notes.append(
                    f"domain {domain!r}: left out {counted(missing, 'sample')} without a label"
                )
            if known:
                labelled.append((domain, samples.take(np.array(known))))
    if not labelled:
        raise DataError("no sample has a label")
    metrics: Sequence[DomainMetrics | NumberMetrics]
    if model.target:
        metrics = [_of_numbers(model, *part, workers, progress) for part in labelled]
        effect = "the errors there are too small"
    else:
        metrics = classes = [_of_classes(model, *part, workers, progress) for part in labelled]
        effect = "the accuracy there is too optimistic"
        total, unknown = sum(m.samples for m in classes), sum(m.unknown for m in classes)
        if unknown == total:
            labels = (label for part in parts for label in part.labels or ())
            first = next(label for label in labels if label is not None)
            raise DataError(
                f"none of the labels is a class of the model (the first, {first!r};"
                f" {nearest(first, model.classes)})"
            )
        if unknown:
            notes.append(f"{unknown} of {total} samples have classes that the model does not know")
    if seen := list(dict.fromkeys(m.domain for m in metrics if m.trained_on)):
        notes.append(
            f"the model was trained on domains with these names: {listed(seen)}; if they hold the"
            f" same samples, {effect}"
        )
    return metrics, notes


def _of_classes(
    model: TrainedModel, domain: str, samples: Samples, workers: int | None, progress: Progress
) -> DomainMetrics:
    codes = {name: code for code, name in enumerate(model.classes)}
    labels = np.array([codes.get(str(label), -1) for label in samples.labels or ()])
    predictions = model.predict(samples.inputs, workers=workers, progress=progress)
    known, n = labels >= 0, len(labels)
    accuracy = float((predictions.predicted == labels).mean())
    chances = predictions.probabilities[known].astype(np.float64)
    outputs = Outputs(chances, labels[known], np.flatnonzero(known))
    of_label = chances[np.arange(len(chances)), outputs.labels]
    return DomainMetrics(
        domain,
        domain in model.domains,
        n,
        accuracy,
        math.sqrt(accuracy * (1 - accuracy) / n),
        float(-np.log(np.maximum(of_label, 1e-300)).mean()) if known.any() else None,
        None if model.typicality is None else predictions.far_share,
        int((~known).sum()),
        confusion(outputs),
        scores(outputs) if known.any() else {},
        outputs,
    )


def _of_numbers(
    model: TrainedModel, domain: str, samples: Samples, workers: int | None, progress: Progress
) -> NumberMetrics:
    labels = np.array([_number(label, model.target) for label in samples.labels or ()])
    predictions = model.predict_numbers(
        samples.inputs, sites=samples.domains, workers=workers, progress=progress
    )
    outputs = NumberOutputs(predictions.values, labels, np.arange(len(labels)))
    errors = np.abs(outputs.predicted - outputs.labels)
    spread = float(errors.std(ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else 0.0
    return NumberMetrics(
        domain,
        domain in model.domains,
        len(labels),
        scores(outputs),
        spread,
        None if model.typicality is None else predictions.far_share,
        model.target,
        outputs,
    )


def _number(label: str | None, target: str) -> float:
    try:
        value = float(label or "")
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise DataError(
            f"the model predicts a number, {target}, and a label is {quoted(str(label))}"
        )
    return value


@dataclass(frozen=True)
class Comparison:
    """A score of a new domain and its prediction interval, which includes its sampling error."""

    domain: str
    metric: str
    value: float
    low: float
    high: float

    @property
    def state(self) -> str:
        """`inside`, `worse` or `better` than expected."""
        if self.low <= self.value <= self.high:
            return "inside"
        direction = METRICS.get(self.metric).direction
        if not direction:
            return "worse"  # further from its target than the domains before
        return "worse" if (self.value > self.high) == (direction < 0) else "better"

    @property
    def sentence(self) -> str:
        """The comparison in words, with advice."""
        side = {True: "below", False: "above"}[self.value < self.low]
        where = "inside" if self.state == "inside" else side
        advice = {
            "inside": "",
            "worse": ": look at what differs there (`shiftproof diagnose`) before using the model",
            "better": ": make sure that the model was not trained on these samples",
        }[self.state]
        name = METRICS.get(self.metric).phrase
        return (
            f"{self.domain}: {name} {three_digits(self.value)} is {where} the range"
            f" {three_digits(self.low)} to {three_digits(self.high)} expected of a new"
            f" domain{advice}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {**vars(self), "state": self.state}


def compare(expected: Expected, domain: str, outputs: AnyOutputs) -> Comparison | None:
    """Compare a new domain with the expected score; return None if its score is undefined."""
    score = expected.headline
    estimate = METRICS.get(expected.metric).estimate(outputs, expected.level)
    if estimate is None:
        return None
    return Comparison(domain, expected.metric, estimate.value, *score.holds(estimate))
