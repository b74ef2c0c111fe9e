"""Reliability: are predictions with probability 70% correct 70% of the time?

The samples of a domain are grouped into ten bins of equal width by their probability.  Each bin has
the mean probability, and the observed frequency with its confidence interval.  Calibrated
probabilities lie on the diagonal.  With two classes the probability is that of the second class;
with more it is that of the predicted class, as in the expected calibration error.  Predicted
numbers are grouped into equally filled bins; no single row is shown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftproof.metrics.base import LEVEL
from shiftproof.metrics.calibration import BINS
from shiftproof.metrics.classification import share_estimate
from shiftproof.metrics.outputs import NumberOutputs, Outputs


class Bin(NamedTuple):
    """Samples of similar probability: mean, observed frequency with its interval, and number."""

    predicted: float
    observed: float
    low: float
    high: float
    samples: int


def reliability(outputs: Outputs, level: float = LEVEL) -> list[Bin]:
    """Return the non-empty bins, in order of probability."""
    if outputs.probabilities.shape[1] == 2:
        probability, happened = outputs.probabilities[:, 1], outputs.labels == 1
    else:
        probability = outputs.probabilities.max(axis=1)
        happened = outputs.probabilities.argmax(axis=1) == outputs.labels
    # As in scikit-learn's `calibration_curve`, a probability on an edge belongs to the lower bin.
    bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], probability)
    points = []
    for number in np.unique(bins):
        rows = bins == number
        share = share_estimate(happened[rows], level)
        mean = float(probability[rows].mean())
        points.append(Bin(mean, share.value, share.low, share.high, int(rows.sum())))
    return points


# Most bins of numbers, and fewest rows of one.
MOST_BINS, FEWEST = 10, 10
# Quantiles that bound the range of the labels of a bin, and of the errors of a domain.
RANGE = (0.1, 0.9)


class NumberBin(NamedTuple):
    """Rows with similar predictions: mean prediction and label, and `RANGE` of the labels."""

    predicted: float
    label: float
    low: float
    high: float
    samples: int


class Errors(NamedTuple):
    """Label minus prediction in one domain: mean, median, quartiles, and `RANGE`."""

    mean: float
    median: float
    quartiles: tuple[float, float]
    range: tuple[float, float]
    samples: int


def number_bins(outputs: NumberOutputs) -> list[NumberBin]:
    """Return up to `MOST_BINS` equally filled bins, in the order of their predictions.

    >>> outputs = NumberOutputs(np.arange(40.0), np.arange(40.0) + 1, np.arange(40))
    >>> [(bin.predicted, bin.label, bin.samples) for bin in number_bins(outputs)]
    [(4.5, 5.5, 10), (14.5, 15.5, 10), (24.5, 25.5, 10), (34.5, 35.5, 10)]
    """
    count = max(1, min(MOST_BINS, len(outputs.labels) // FEWEST))
    order = np.argsort(outputs.predicted, kind="stable")
    bins = []
    for rows in np.array_split(order, count):
        low, high = (float(q) for q in np.quantile(outputs.labels[rows], RANGE))
        predicted, label = float(outputs.predicted[rows].mean()), float(outputs.labels[rows].mean())
        bins.append(NumberBin(predicted, label, low, high, len(rows)))
    return bins


def errors_of(outputs: NumberOutputs) -> Errors:
    """Return a summary of the errors, label minus prediction."""
    errors = outputs.labels - outputs.predicted
    points = (RANGE[0], 0.25, 0.5, 0.75, RANGE[1])
    low, first, median, third, high = (float(q) for q in np.quantile(errors, points))
    return Errors(float(errors.mean()), median, (first, third), (low, high), len(errors))
