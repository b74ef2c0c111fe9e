"""Reliability: are samples that get a probability of 70% right 70% of the time?

The samples of a domain are put into ten equal bins by their probability.  Each bin has the mean
probability, and the share of samples that were as predicted, with its interval.  Calibrated
probabilities lie on the diagonal.  With two classes the probability is that of the second; with
more it is that of the predicted class, as in the expected calibration error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftproof.inference.estimates import LEVEL, share_interval
from shiftproof.learners.calibration_scores import BINS
from shiftproof.training.outputs import Outputs


class Bin(NamedTuple):
    """Samples of similar probability: their mean, the share observed with interval, the number."""

    predicted: float
    observed: float
    low: float
    high: float
    samples: int


def reliability(outputs: Outputs, level: float = LEVEL) -> list[Bin]:
    """Return the bins that have samples, by probability."""
    if outputs.probabilities.shape[1] == 2:
        probability, happened = outputs.probabilities[:, 1], outputs.labels == 1
    else:
        probability = outputs.probabilities.max(axis=1)
        happened = outputs.probabilities.argmax(axis=1) == outputs.labels
    # As scikit-learn's `calibration_curve`: a probability on an edge belongs to the lower bin.
    place = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], probability)
    return [
        Bin(
            float(probability[own].mean()),
            float(happened[own].mean()),
            *share_interval(happened[own], level),
            int(own.sum()),
        )
        for own in (place == number for number in range(BINS))
        if own.any()
    ]
