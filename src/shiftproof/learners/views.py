"""Selecting the views of the rows to use: raw, standardised within domains, or both.

Stacking alone cannot decide this.  Its weights start equal, so with few domains half of the
ensemble would use standardised rows even if they do not help.  Here raw rows are used, unless
held-out domains show that another choice is better.  For each set of candidates (first view, second
view, both), the rows of each domain are predicted with weights and a temperature from other
domains, as in `learners.weighting`.  The better of the last two sets is selected if its gain over
the first is significant in a one-sided t-test over domains, which are the sampling units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import ttest_1samp  # type: ignore[import-untyped]

from shiftproof.core.standardize import NONE
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.samples import Samples
from shiftproof.learners.stacking import Weights
from shiftproof.learners.weighting import cross_fitted, domain_badness

# Significance level of the t-test.
ALPHA = 0.05
# Draws of the domains' shares: few, because the weights are fitted many times.
DRAWS = 10


def members_that_count(
    predicted: np.ndarray, views: Sequence[str], samples: Samples, seed: int, metric: str
) -> np.ndarray:
    """Return a mask [m] of the members to use, given their held-out predictions [m, n, classes].

    ``views`` [m] are the views of the members.
    """
    plain = np.array([view == NONE for view in views])
    everyone = np.ones(len(views), dtype=bool)
    if plain.all():
        return everyone
    if not plain.any():  # for lack of time; `best` tries the first view first
        return everyone
    before = _badness(predicted[plain], samples, seed, metric)
    gains = {}
    for chosen in (~plain, everyone):
        gain = before - _badness(predicted[chosen], samples, seed, metric)
        gains[float(np.nanmean(gain))] = gain[~np.isnan(gain)], chosen
    gain, chosen = gains[max(gains)]
    return chosen if surely_positive(gain) else plain


def surely_positive(gain: np.ndarray) -> bool:
    """Whether the mean gain over domains is significantly above 0; False for a single domain.

    >>> surely_positive(np.array([0.1, 0.12, 0.09])), surely_positive(np.array([0.3, 0.01, -0.1]))
    (True, False)
    """
    if len(gain) < 2 or gain.mean() <= 0:
        return False
    if not np.ptp(gain):
        return True
    return bool(ttest_1samp(gain, 0, alternative="greater").pvalue <= ALPHA)


def _badness(predicted: np.ndarray, samples: Samples, seed: int, metric: str) -> np.ndarray:
    """Return the badness of each domain, with weights from others; NaN where undefined."""

    def stacked(predicted: np.ndarray, samples: Samples) -> Weights:
        return criterion_of(samples).weights(predicted, samples, seed, DRAWS)

    return domain_badness(metric, cross_fitted(stacked, predicted, samples, seed), samples)
