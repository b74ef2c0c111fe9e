"""Functions of the features that detect more than differences of means.

Domains can differ in spread, in correlation or in tails while all means agree.  Squares detect
differences in spread, products and squares of random projections detect correlations, the norm
detects a scale factor common to all columns, and normal scores limit the effect of heavy tails.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri  # type: ignore[import-untyped]
from scipy.stats import rankdata  # type: ignore[import-untyped]

from shiftproof.information.experts import with_squares
from shiftproof.information.sample import Floats

# Up to this many columns, all their products are used (324 functions of 24 columns) …
PRODUCTS = 24
# … and with more columns, the squares of this many random projections.
PROJECTIONS = 32


def normal_scores(x: Floats) -> Floats:
    """Return each column's ranks as quantiles of the normal distribution; ties share a quantile.

    The map is increasing in each column, so no information is lost, and no value is an outlier.
    """
    ranks = rankdata(x, axis=0)
    scores = ndtri((ranks - 0.5) / len(x))
    spread = scores.std(axis=0)
    return np.asarray((scores - scores.mean(axis=0)) / np.where(spread > 0, spread, 1))


def second_order(z: Floats) -> Floats:
    """Return z [n, k] with functions of second order, standardised.

    Up to `PRODUCTS` columns these are all squares and products.  With more columns, they are the
    squares and the squares of `PROJECTIONS` random projections.  Then come three norms (the sum of
    absolute values, the sum of squares, the largest absolute value), and the absolute values:
    together with the squares, they detect tails that differ at equal variance (the log ratio of a
    normal density to Laplace's is linear in both).
    """
    size = np.abs(z)
    norms = np.stack([size.sum(axis=1), (z**2).sum(axis=1), size.max(axis=1)], axis=1)
    if z.shape[1] <= PRODUCTS:
        squares = with_squares(z)[:, z.shape[1] :]
    else:
        axes = np.random.default_rng(0).standard_normal((z.shape[1], PROJECTIONS))
        squares = np.concatenate([z**2, (z @ axes) ** 2], axis=1)
    return np.concatenate(
        [z, _standardised(np.concatenate([squares, norms, size], axis=1))], axis=1
    )


def _standardised(x: Floats) -> Floats:
    """Return the columns that vary, with mean 0 and variance 1."""
    spread = x.std(axis=0)
    varies = spread > 1e-9
    return np.asarray((x - x.mean(axis=0))[:, varies] / spread[varies])
