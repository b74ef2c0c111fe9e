"""Comparison of a new site with each training domain: distance, shifted features, accuracy.

Distances are between the mean of the new rows and that of each training domain, in standard
deviations within domains (`inference.typicality`).  The expected accuracy needs no labels: it is
the model's mean confidence at the new site, plus the mean gap between accuracy and confidence on
held-out training domains, with a prediction interval for the next domain (difference of
confidences; Guillory et al., 2021, *Predicting with confidence on unseen distributions*).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from shiftproof.core.errors import DataError
from shiftproof.data.input_forms import Inputs, TableForm
from shiftproof.data.tables.preprocessing import OneHot, Scaled
from shiftproof.inference.adaptation.label_shift import Adapted, LabelShift, adapted
from shiftproof.inference.model import TrainedModel, without_labels

# Numbers beyond this many standard deviations from the training mean are unusual (normal: 0.3%).
UNUSUAL = 3.0
# Smallest share of unusual cells to report, and largest number of columns.
LEAST_SHARE, MOST_COLUMNS = 0.02, 5
LEVEL = 0.95


@dataclass(frozen=True)
class Comparison:
    """Comparison of a new site with the training domains.

    ``distances`` are the distances to each training domain, nearest first; domains are named if
    every domain has its own mean.  ``shifts`` are the features whose mean differs most from that of
    the nearest domain, in training standard deviations.  ``new_values`` is the share of cells of a
    column that are far outside the training range, or categories not seen in training.
    ``accuracy`` is the expected accuracy with the bounds of its interval.
    """

    rows: int
    far: float
    distances: dict[str, float]
    shifts: dict[str, float]
    new_values: dict[str, float]
    accuracy: tuple[float, float, float] | None
    adaptation: Adapted

    @property
    def nearest(self) -> str:
        """The training domain that the new site resembles most."""
        return next(iter(self.distances))

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        adaptation = self.adaptation.to_dict()
        values = {name: value for name, value in vars(self).items() if name != "adaptation"}
        return {**values, "nearest": self.nearest, "adaptation": adaptation}


def compare_sites(model: TrainedModel, inputs: Inputs) -> Comparison:
    """Compare a new site, whose rows have no labels, with the training domains."""
    if model.typicality is None:
        raise DataError(
            "a private model stores nothing about its training domains to compare with; train it"
            " without `private`"
        )
    predictions = model.predict(inputs)
    network, ready = model.ready(inputs)
    rows = without_labels(ready)
    answers = network.answers(rows, model.form, model.device, answered=False)
    seen = np.concatenate([features for features, _ in answers]).astype(np.float64)
    mean = seen.mean(axis=0)
    means = model.typicality.means
    apart = np.linalg.norm((mean - means) @ model.typicality.whitening, axis=1)
    names = list(model.domains)
    if len(means) != len(names):  # small domains share a mean
        names = [f"group {group + 1} of training domains" for group in range(len(means))]
    order = np.argsort(apart, kind="stable").tolist()
    shifts, new_values = {}, {}
    if isinstance(model.form, TableForm):
        features = model.form.columns.feature_names
        moved = mean - means[order[0]]
        largest = np.argsort(-np.abs(moved), kind="stable")[:MOST_COLUMNS]
        shifts = {features[group]: float(moved[group]) for group in largest}
        new_values = _new_values(model.form, ready)
    probabilities = predictions.probabilities.astype(np.float64)
    return Comparison(
        len(seen),
        predictions.far_share,
        {names[group]: float(apart[group]) for group in order},
        shifts,
        new_values,
        None if model.label_shift is None else expected_accuracy(model.label_shift, probabilities),
        adapted(model.label_shift, probabilities, predictions.typicality),
    )


def expected_accuracy(known: LabelShift, probabilities: np.ndarray) -> tuple[float, float, float]:
    """Return the expected accuracy of a site without labels, and its 95% prediction interval.

    With gaps g ± s on K held-out domains, the gap of the next domain is in g ± t s √(1 + 1/K); the
    sampling error of the new rows is added.
    """
    confidence = float(probabilities.max(axis=1).mean())
    value = float(np.clip(confidence + known.gap, 0, 1))
    tail = float(stdtrit(known.domains - 1, (1 + LEVEL) / 2))
    sampling = value * (1 - value) / len(probabilities)
    half = tail * np.sqrt(known.gap_spread**2 * (1 + 1 / known.domains) + sampling)
    return value, float(max(value - half, 0)), float(min(value + half, 1))


def _new_values(form: TableForm, inputs: Inputs) -> dict[str, float]:
    """Return the columns with cells outside the training range, and the share of such cells."""
    if not form.raw:
        return {}
    cells, shares = np.asarray(inputs, dtype=float), {}
    for part in form.columns.parts:
        values = cells[:, part.column]
        values = values[~np.isnan(values)]
        if isinstance(part, Scaled) and len(values):
            new = np.abs(values - part.mean) > UNUSUAL * part.std
        elif isinstance(part, OneHot) and len(values):
            new = ~np.isin(values, part.codes)
        else:
            continue
        if new.mean() >= LEAST_SHARE:
            shares[form.columns.columns.columns[part.column].name] = float(new.mean())
    return dict(sorted(shares.items(), key=lambda item: -item[1])[:MOST_COLUMNS])
