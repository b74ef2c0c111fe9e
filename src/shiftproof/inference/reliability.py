"""Reliability: are predictions with probability 70% correct 70% of the time?

The samples of a domain are grouped into ten bins of equal width by their probability.  Each bin has
the mean probability, and the observed frequency with its confidence interval.  Calibrated
probabilities lie on the diagonal.  With two classes the probability is that of the second class;
with more it is that of the predicted class, as in the expected calibration error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftproof.inference.estimates import LEVEL, share_interval
from shiftproof.learners.calibration_scores import BINS
from shiftproof.training.outputs import Outputs


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
