"""Metrics of a trained model on labelled samples, by domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from shiftproof.core.errors import DataError, nearest
from shiftproof.core.text import counted, listed
from shiftproof.data.base import Progress, silent
from shiftproof.data.input_forms import Samples
from shiftproof.inference.model import TrainedModel
from shiftproof.learners.scores import scores
from shiftproof.training.outputs import Outputs


@dataclass(frozen=True)
class DomainMetrics:
    """The metrics on one domain.

    The standard error of `accuracy` is √(a(1−a)/n).  `risk` is the mean of −log p(label) over the
    samples of known classes, and `far` the share of samples unlike the training domains (None for
    a private model).  `unknown` is the number of samples whose class the model does not know;
    they count as wrong.  `confusion` [label][predicted] counts the other samples, `scores` are
    their scores (see `shiftproof.learners.scores`), and `outputs` the predictions behind them.
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

    def to_json(self) -> dict[str, Any]:
        """Return the metrics by name, as JSON values."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.name != "outputs"}


def labelled_domains(parts: Sequence[Samples]) -> tuple[list[tuple[str, Samples]], list[str]]:
    """Return the labelled samples of each domain, and notes on samples left out."""
    notes = [note for part in parts for note in part.notes]
    found = []
    for part in parts:
        for domain, samples in part.by_domain().items():
            if samples.labels is None:
                raise DataError("there are no labels to compare the predictions with")
            labelled = [i for i, label in enumerate(samples.labels) if label is not None]
            if missing := len(samples) - len(labelled):
                notes.append(
                    f"domain {domain!r}: left out {counted(missing, 'sample')} without a label"
                )
            if labelled:
                found.append((domain, samples.take(np.array(labelled))))
    if not found:
        raise DataError("no sample has a label")
    return found, notes


def domain_metrics(
    model: TrainedModel,
    parts: Sequence[Samples],
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> tuple[list[DomainMetrics], list[str]]:
    """Return the metrics on each domain, and notes on samples left out."""
    labelled, notes = labelled_domains(parts)
    found = [_metrics(model, *own, workers, progress) for own in labelled]
    total, unknown = (sum(getattr(each, name) for each in found) for name in ("samples", "unknown"))
    if unknown == total:
        first = next(label for part in parts for label in part.labels or () if label is not None)
        raise DataError(
            f"none of the labels is a class of the model (the first, {first!r};"
            f" {nearest(str(first), model.classes)})"
        )
    if unknown:
        notes.append(f"{unknown} of {total} samples have classes that the model does not know")
    if seen := [each.domain for each in found if each.trained_on]:
        notes.append(
            f"the model was trained on domains with these names: {listed(seen)}; if they hold the"
            " same samples, the accuracy there is too optimistic"
        )
    return found, notes


def _metrics(
    model: TrainedModel, domain: str, samples: Samples, workers: int | None, progress: Progress
) -> DomainMetrics:
    position = {name: code for code, name in enumerate(model.classes)}
    labels = np.array([position.get(str(label), -1) for label in samples.labels or ()])
    predictions = model.predict(samples.inputs, workers=workers, progress=progress)
    known = labels >= 0
    n = len(labels)
    predicted = predictions.predicted_array
    accuracy = float((predicted == labels).mean())
    chances = predictions.probability_array[known].astype(np.float64)
    own = chances[np.arange(len(chances)), labels[known]]
    outputs = Outputs(chances, labels[known], np.flatnonzero(known))
    classes = len(model.classes)
    pairs = labels[known] * classes + predicted[known]
    return DomainMetrics(
        domain,
        domain in model.domains,
        n,
        accuracy,
        math.sqrt(accuracy * (1 - accuracy) / n),
        float(-np.log(np.maximum(own, 1e-300)).mean()) if known.any() else None,
        None if model.typicality is None else predictions.far_share,
        int((~known).sum()),
        np.bincount(pairs, minlength=classes**2).reshape(classes, classes).tolist(),
        scores(outputs.probabilities, outputs.labels) if known.any() else {},
        outputs,
    )
