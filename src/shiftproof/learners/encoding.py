"""Encoding raw rows for models that need numeric inputs: linear models, forests, networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftproof.learners.samples import Samples

# Quantiles of the estimated ranks: few enough that many rows share each one, because a model file
# must not reveal the values of single rows.
MOST_QUANTILES = 100
ROWS_A_QUANTILE = 5
# The code of a missing category; -1 is an unknown category.
MISSING = -2.0


def encoder(samples: Samples, *, ranks: bool = False) -> Any:
    """Return an unfitted transformer that imputes, standardises and one-hot encodes.

    Missing numbers become the median, and an indicator column marks them: which tests a site does
    is informative about the patient as well as the site, and held-out domains show whether that
    helps.  Missing categories are a category of their own, and rare ones are another; an unseen
    category becomes one of these, or all zeros if there are none.  With ``ranks``, numbers are
    replaced by their rank among the training rows, in [0, 1], which removes long tails and units of
    measurement.  Numeric columns are then scaled to variance 1.
    """
    from sklearn.compose import ColumnTransformer  # type: ignore[import-untyped]
    from sklearn.impute import SimpleImputer  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
    from sklearn.preprocessing import (  # type: ignore[import-untyped]
        OneHotEncoder,
        StandardScaler,
    )

    from shiftproof.learners.ranks import SmoothRanks

    steps = [
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    ]
    if ranks:
        quantiles = int(np.clip(len(samples) // ROWS_A_QUANTILE, 2, MOST_QUANTILES))
        steps.insert(1, SmoothRanks(n_quantiles=quantiles, subsample=None))
    one_hot = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=MISSING, keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    categorical = samples.categorical
    columns = np.arange(len(categorical))
    parts = [
        ("numbers", make_pipeline(*steps), columns[~categorical]),
        ("categories", one_hot, columns[categorical]),
    ]
    return ColumnTransformer([part for part in parts if len(part[2])])


def fitted_encoder(samples: Samples, *, ranks: bool = False) -> Any:
    """Return the transformer fitted to samples.

    With sample weights, medians, means and variances are weighted, so that a row of weight 2 equals
    the row given twice.  Ranks are unweighted.
    """
    made = encoder(samples, ranks=ranks).fit(samples.x)
    numbers = made.named_transformers_.get("numbers")
    if samples.weight is None or numbers is None:
        return made
    *steps, scaler = (step for _, step in numbers.steps)
    rows = samples.x[:, ~samples.categorical]
    known = ~np.isnan(rows)
    imputer = steps[0]
    for column in np.flatnonzero(known.any(axis=0)):
        there = known[:, column]
        imputer.statistics_[column] = weighted_median(rows[there, column], samples.weight[there])
    for step in steps:
        rows = step.transform(rows)
    scaler.fit(rows, sample_weight=samples.weights())
    return made


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted median of values [n], for weights [n] above 0.

    If two values split the weight in half, it is their mean, as for repeated values.

    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]))
    1.5
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    half = below[-1] / 2
    first, second = (np.searchsorted(below, half, side) for side in ("left", "right"))
    return float(values[order[[first, second]]].mean())
