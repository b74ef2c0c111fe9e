"""Functions of features: components, ranks, squares and products, and random cosines.

`second_order` detects more than differences of means: domains can differ in spread, in correlation
or in tails while all means agree.  Squares detect differences in spread, products and squares of
random projections detect correlations, the norm detects a scale factor common to all columns, and
normal scores limit the effect of heavy tails.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from shiftproof.statistics.sample import Floats

# With more columns than this, only the leading principal components are used.
COMPONENTS = 128
# Up to this many columns, classifiers and tests use their squares and products too.
SQUARED = 12
# Up to this many columns, all their products are functions of second order (324 of 24 columns) …
PRODUCTS = 24
# … and with more columns, the squares of this many random projections.
PROJECTIONS = 32
# The number of random cosines in a test.
WAVES = 48
# Columns with a smaller standard deviation are constant.
CONSTANT = 1e-9


def standardised(x: Floats) -> Floats:
    """Return the columns of x [n, k] that vary, with mean 0 and variance 1."""
    spread = x.std(axis=0)
    varies = spread > CONSTANT
    return np.asarray((x - x.mean(axis=0))[:, varies] / spread[varies])


def principal_components(x: Floats, count: int, *, whiten: bool = True) -> Floats:
    """Return the leading components of x [n, k], with variance 1 if whitened: [n, ≤ count]."""
    x = x.astype(np.float32)
    values, vectors = np.linalg.eigh((x.T @ x).astype(np.float64) / len(x))
    kept = np.flatnonzero(values > 1e-6 * values[-1])[::-1][:count]
    axes = vectors[:, kept]
    # Fix the sign of the axes, which is arbitrary.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(kept))])
    return np.asarray(x @ (axes / np.sqrt(values[kept]) if whiten else axes))


def leading(x: Floats, most: int = COMPONENTS) -> Floats:
    """Return the leading components of more than `most` columns, scaled together."""
    if x.shape[1] <= most:
        return x
    x = principal_components(x, most, whiten=False)
    return np.asarray(x / np.sqrt((x**2).mean()))


def with_squares(x: Floats) -> Floats:
    """Return x [n, k] with the standardised products of all pairs of columns: [n, k(k + 3)/2]."""
    first, second = np.triu_indices(x.shape[1])
    # The square of a column of two equally frequent values is constant.
    return np.concatenate([x, standardised(x[:, first] * x[:, second])], axis=1)


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
    return np.concatenate([z, standardised(np.concatenate([squares, norms, size], axis=1))], axis=1)


def linear_features(x: Floats) -> Floats:
    """Return the features for a linear rule: x [n, k] if k is small, else leading components.

    There are at most `SQUARED` features, so that classifiers need no shrinkage.
    """
    if x.shape[1] <= SQUARED:
        return x
    return principal_components(x, SQUARED).astype(np.float64)


def functions_to_test(x: Floats) -> Floats:
    """Return functions φ(x) [n, p] of standardised features, each with mean 0."""
    columns = x.shape[1]
    if columns > SQUARED:
        components = principal_components(x, COMPONENTS, whiten=False)
        scores = normal_scores(components)
        second = second_order(scores)[:, scores.shape[1] :]
        # Squares are noisier than means; scale them to the mean size of the components.
        return np.concatenate([components, second * np.sqrt((components**2).mean())], axis=1)
    if columns == 0:
        return x
    x = principal_components(x, columns)
    columns = x.shape[1]
    rng = np.random.default_rng(0)
    # Low and high frequencies: the relevant scale is not known in advance.
    speed = np.geomspace(0.5, 4, WAVES) / np.sqrt(columns)
    waves = np.cos(
        x @ (rng.standard_normal((columns, WAVES)) * speed) + rng.uniform(0, 2 * np.pi, WAVES)
    )
    waves = (waves - waves.mean(axis=0)) / np.maximum(waves.std(axis=0), CONSTANT)
    return np.concatenate([with_squares(x), waves], axis=1)
