"""Counts: the estimator for features with few distinct rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.information.base import Estimator, Parts
from shiftproof.information.contingency import (
    conditional_independence,
    independence,
    information,
    pair_codes,
)
from shiftproof.information.sample import Ints, LogRatio, Sample

# Fewest samples, on average, in each cell of (distinct row, domain).
ENOUGH = 20


@dataclass(frozen=True, kw_only=True)
class Counts(Estimator):
    """Plug-in estimates from a table of counts, with bias correction; all tests are exact."""

    method = "counts"

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions of the estimates."""
        return ("each distinct row of features is a separate value and occurs often enough",)

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log p(d|x)/p(d)."""
        return information(_rows(sample), sample)

    def covariate_p(self, sample: Sample) -> float | None:
        """Return the exact p-value of "no covariate shift", if requested."""
        return independence(_rows(sample), sample, self.permutations, self.seed)

    def parts(self, sample: Sample) -> Parts:
        """Return all log ratios; the concept shift is the joint shift minus the covariate shift."""
        x, y = _rows(sample), sample.y
        both = pair_codes(x, y)
        covariate, joint = information(x, sample), information(both, sample)
        tests = (self.permutations, self.seed)
        p_values = {
            "covariate": independence(x, sample, *tests),
            "concept": conditional_independence(y, x, sample, *tests),
            "joint": independence(both, sample, *tests),
            "within_label": conditional_independence(x, y, sample, *tests),
        }
        return Parts(covariate, joint - covariate, joint, p_values)


def few_rows(sample: Sample) -> bool:
    """Return whether the features have few enough distinct rows for counts."""
    most = len(sample.d) / (ENOUGH * sample.domains)
    # If one column has too many values, there is no need to sort whole rows.
    columns = (len(np.unique(column)) <= most for column in sample.x.T)
    return all(columns) and int(_distinct(sample).max()) < most


def _rows(sample: Sample) -> Ints:
    """Return the rows of features as codes [n]; raise if too many are distinct."""
    if not few_rows(sample):
        raise InvalidValue(
            f"counts need at least {ENOUGH} samples for each distinct row of features and domain;"
            " use CrossFitted, or bin the features"
        )
    return _distinct(sample)


def _distinct(sample: Sample) -> Ints:
    if sample.x.shape[1] == 0:
        return np.zeros(len(sample.d), dtype=np.intp)
    return np.unique(sample.x, axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
