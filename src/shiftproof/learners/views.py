"""Which views of the rows count: as they are, standardised within domains, or both.

Stacking alone would not judge this.  Its weights begin equal, so with few domains half of the
ensemble would take standardised rows whatever they do.  Here rows as they are count, unless
held-out domains show that others do better.  For each set of candidates (of the first view, of the
second, of both), the rows of each domain are predicted with weights and a temperature from other
domains, as in `learners.weighting`.  The better of the last two sets is taken if its gain over the
first is surely above 0: by a one-sided t-test over domains, which are the units that vary.
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

# A gain counts if chance alone has at most this probability of one as large.
ALPHA = 0.05
# Draws of the domains' shares: few, because the weights are found many times.
DRAWS = 10


def members_that_count(
    predicted: np.ndarray, views: Sequence[str], samples: Samples, seed: int, metric: str
) -> np.ndarray:
    """Return which members [m] may count, by their predictions [m, n, classes] of held-out domains.

    ``views`` [m] are those of the members.
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
    """Whether the mean of domains is above 0, given those of some; never by a single one.

    >>> surely_positive(np.array([0.1, 0.12, 0.09])), surely_positive(np.array([0.3, 0.01, -0.1]))
    (True, False)
    """
    if len(gain) < 2 or gain.mean() <= 0:
        return False
    if not np.ptp(gain):
        return True
    return bool(ttest_1samp(gain, 0, alternative="greater").pvalue <= ALPHA)


def _badness(predicted: np.ndarray, samples: Samples, seed: int, metric: str) -> np.ndarray:
    """Return the score of each domain with weights from others; NaN where it is undefined."""

    def stacked(predicted: np.ndarray, samples: Samples) -> Weights:
        return criterion_of(samples).weights(predicted, samples, seed, DRAWS)

    return domain_badness(metric, cross_fitted(stacked, predicted, samples, seed), samples)
