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

from numpy.typing import ArrayLike

from shiftproof.information.base import (
    Counts as Counts,
    Estimate as Estimate,
    Estimator as Estimator,
    Shift as Shift,
    few_rows,
    mutual_information as mutual_information,
)
from shiftproof.information.classifiers import CrossFitted as CrossFitted
from shiftproof.information.dimensions import (
    Matching as Matching,
    match_dimensions as match_dimensions,
)
from shiftproof.statistics.sample import checked


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
    kind = Counts if few_rows(checked(x, None, d, balanced)) else CrossFitted
    return kind(seed=seed, balanced=balanced, level=level, permutations=permutations)


__all__ = sorted(
    name for name, value in vars().items() if getattr(value, "__module__", "").startswith(__name__)
)
