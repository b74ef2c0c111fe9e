"""How good a trained model is on labelled samples, domain by domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from shiftproof.core.errors import DataError, nearest
from shiftproof.data.base import Progress, silent
from shiftproof.data.samples import Samples
from shiftproof.data.tables.cell_types import listed
from shiftproof.inference.model import TrainedModel


@dataclass(frozen=True)
class Assessment:
    """The outcome on one domain.

    ``accuracy`` and its standard error √(a(1−a)/n); ``risk``, the mean of −log p(label) over the
    samples of known classes; ``far``, the share of samples unlike the training domains; ``unknown``
    counts samples of classes that the model does not know, which it always gets wrong.
    ``confusion`` [label][predicted] counts the others.
    """

    domain: str
    trained_on: bool
    samples: int
    accuracy: float
    standard_error: float
    risk: float | None
    far: float
    unknown: int
    confusion: list[list[int]]

    def to_json(self) -> dict[str, Any]:
        """Return the values by name."""
        return asdict(self)


def assess(
    model: TrainedModel,
    parts: Sequence[Samples],
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> tuple[list[Assessment], list[str]]:
    """Return the outcome on each domain, and notes on what was left out."""
    notes = [note for part in parts for note in part.notes]
    outcomes = []
    for part in parts:
        for domain, samples in part.by_domain().items():
            if samples.labels is None:
                raise DataError("there are no labels to compare the predictions with")
            labelled = [i for i, label in enumerate(samples.labels) if label is not None]
            if missing := len(samples) - len(labelled):
                notes.append(f"domain {domain!r}: left out {missing} samples without a label")
            if not labelled:
                continue
            samples = samples.take(torch.tensor(labelled).numpy())
            outcomes.append(_assessed(model, domain, samples, workers, progress))
    if not outcomes:
        raise DataError("no sample has a label")
    total, unknown = (sum(getattr(o, name) for o in outcomes) for name in ("samples", "unknown"))
    if unknown == total:
        first = next(label for part in parts for label in part.labels or () if label is not None)
        raise DataError(
            f"none of the labels is a class of the model (the first, {first!r};"
            f" {nearest(first, model.classes)})"
        )
    if unknown:
        notes.append(f"{unknown} of {total} samples are of classes that the model does not know")
    if seen := [outcome.domain for outcome in outcomes if outcome.trained_on]:
        notes.append(
            f"the model was trained on domains of these names: {listed(seen)}; if they hold the"
            " same samples, its accuracy there says little"
        )
    return outcomes, notes


def _assessed(
    model: TrainedModel, domain: str, samples: Samples, workers: int | None, progress: Progress
) -> Assessment:
    position = {name: code for code, name in enumerate(model.classes)}
    labels = torch.tensor([position.get(str(label), -1) for label in samples.labels or ()])
    predictions = model.predict(samples.inputs, workers=workers, progress=progress)
    known = labels >= 0
    n = len(labels)
    accuracy = float((predictions.predicted == labels).double().mean())
    own = predictions.probabilities[known].double().gather(1, labels[known, None])
    classes = len(model.classes)
    pairs = labels[known] * classes + predictions.predicted[known]
    return Assessment(
        domain,
        domain in model.domains,
        n,
        accuracy,
        math.sqrt(accuracy * (1 - accuracy) / n),
        float(-own.clamp(min=1e-300).log().mean()) if known.any() else None,
        float(predictions.far.double().mean()),
        int((~known).sum()),
        torch.bincount(pairs, minlength=classes**2).view(classes, classes).tolist(),
    )
