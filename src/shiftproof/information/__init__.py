"""Estimators of mutual information with the domain, from samples.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> d = np.repeat([0, 1], 500)
>>> y = rng.integers(0, 2, 1000)
>>> x = rng.normal(size=(1000, 2)) + y[:, None]
>>> shift = estimator_for(x, d, seed=0, permutations=99).measure(x, y, d)
>>> shift.covariate.symbol, shift.covariate.interval[0]
('I(X;D)', 0.0)
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from shiftproof.information.base import (
    Counts,
    Estimate,
    Estimator,
    Parts,
    Shift,
    few_rows,
    mutual_information,
)
from shiftproof.information.classifiers import CrossFitted
from shiftproof.information.dimensions import Matching, match_dimensions
from shiftproof.statistics.sample import LogRatio, Sample, checked

__all__ = [
    "Counts",
    "CrossFitted",
    "Estimate",
    "Estimator",
    "LogRatio",
    "Matching",
    "Parts",
    "Sample",
    "Shift",
    "estimator_for",
    "estimator_of",
    "match_dimensions",
    "mutual_information",
]


def estimator_for(
    x: ArrayLike,
    d: ArrayLike,
    *,
    seed: int,
    balanced: bool = False,
    level: float = 0.95,
    permutations: int = 0,
) -> Estimator:
    """Return the estimator for x: `Counts` if it has few distinct rows, else `CrossFitted`."""
    settings = {"seed": seed, "balanced": balanced, "level": level, "permutations": permutations}
    return estimator_of(checked(x, None, d, balanced), **settings)


def estimator_of(sample: Sample, **settings: Any) -> Estimator:
    """Return the estimator for checked samples, with the settings of an `Estimator`."""
    return (Counts if few_rows(sample) else CrossFitted)(**settings)
