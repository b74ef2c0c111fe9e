"""Metrics of a trained regression model on labelled samples, by domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.text import listed, quoted
from shiftproof.data.base import Progress, silent
from shiftproof.data.samples import Samples
from shiftproof.inference.metrics import labelled_domains
from shiftproof.inference.model import TrainedModel
from shiftproof.training.outputs import NumberOutputs


@dataclass(frozen=True)
class NumberMetrics:
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

    def to_json(self) -> dict[str, Any]:
        """Return the metrics by name, as JSON values."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.name != "outputs"}


def number_metrics(
    model: TrainedModel,
    parts: Sequence[Samples],
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> tuple[list[NumberMetrics], list[str]]:
    """Return the metrics on each domain, and notes on samples left out."""
    labelled, notes = labelled_domains(parts)
    found = [_metrics(model, *own, workers, progress) for own in labelled]
    if seen := list(dict.fromkeys(each.domain for each in found if each.trained_on)):
        notes.append(
            f"the model was trained on domains with these names: {listed(seen)}; if they hold the"
            " same samples, the errors there are too small"
        )
    return found, notes


def _metrics(
    model: TrainedModel, domain: str, samples: Samples, workers: int | None, progress: Progress
) -> NumberMetrics:
    labels = np.array([_number(label, model.target) for label in samples.labels or ()])
    predictions = model.predict_numbers(
        samples.inputs, sites=samples.domains, workers=workers, progress=progress
    )
    outputs = NumberOutputs(predictions.value_array, labels, np.arange(len(labels)))
    errors = np.abs(outputs.predicted - outputs.labels)
    spread = float(errors.std(ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else 0.0
    return NumberMetrics(
        domain,
        domain in model.domains,
        len(labels),
        outputs.scores(),
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
