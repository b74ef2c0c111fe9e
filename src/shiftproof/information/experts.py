"""The classifiers that predict a domain or a label from features, and functions of the features.

The choice of classifiers depends only on the number of columns, not on domains or labels;
`classifiers.cross_fit` sets their weights.

`second_order` detects more than differences of means: domains can differ in spread, in correlation
or in tails while all means agree.  Squares detect differences in spread, products and squares of
random projections detect correlations, the norm detects a scale factor common to all columns, and
normal scores limit the effect of heavy tails.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri  # type: ignore[import-untyped]
from scipy.stats import rankdata  # type: ignore[import-untyped]
from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from shiftproof.information.sample import Floats, Ints

# With more columns than this, only the leading principal components are used.
COMPONENTS = 128
# Up to this many columns, their squares and products are used too …
SQUARED = 12
# … and boosted trees, which are slow with many columns and need many samples.
GROWN, GROWN_FROM = 32, 5_000


@dataclass(frozen=True)
class Expert:
    """A kind of classifier and its features, [n, columns].

    `splits` is whether the classifier can separate groups given indicator columns for them.
    """

    features: Floats
    build: Callable[[], LogisticRegression | HistGradientBoostingClassifier]
    splits: bool = False

    def log_odds(self, question: Question, train: Ints, where: Ints) -> Floats:
        """Fit on the rows `train` and return log q/prior at the rows `where`: [·, classes]."""
        model = _Fit(self.build, self.features[train], question, train)
        return model.log_odds(self.features[where])

    def log_odds_by_group(self, question: Question, train: Ints, where: Ints) -> Floats:
        """Fit within each group and return log q/prior: [·, groups, classes]."""
        groups = range(question.groups)
        if not self.splits:
            parts = [train[question.group[train] == g] for g in groups]
            return np.stack([self.log_odds(question, part, where) for part in parts], axis=1)
        own = np.eye(question.groups)
        known = np.concatenate([self.features[train], own[question.group[train]]], axis=1)
        model = _Fit(self.build, known, question, train)
        there = self.features[where]
        return np.stack(
            [
                model.log_odds(np.concatenate([there, np.tile(own[g], (len(there), 1))], axis=1))
                for g in groups
            ],
            axis=1,
        )


@dataclass(frozen=True)
class Question:
    """A prediction task: the target [n], the samples' weights [n] and groups [n], and the prior."""

    target: Ints
    weight: Floats
    group: Ints
    prior: Floats

    @property
    def groups(self) -> int:
        """Return the number of groups."""
        return int(self.group.max()) + 1


class _Fit:
    """A classifier fitted on the rows `train`; it gives no class probability 0."""

    def __init__(
        self,
        build: Callable[[], LogisticRegression | HistGradientBoostingClassifier],
        features: Floats,
        question: Question,
        train: Ints,
    ) -> None:
        self.prior = question.prior
        # Weight of the prior in the mixture, equal to that of one sample.
        self.doubt = 1 / (len(train) + 1)
        self.known, codes = np.unique(question.target[train], return_inverse=True)
        self.model = None
        if len(self.known) > 1:
            self.model = build()
            with warnings.catch_warnings():
                # A fit that stopped early is a worse classifier, and gets a lower weight.
                warnings.simplefilter("ignore", ConvergenceWarning)
                # Many classes with few samples each are allowed.
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                self.model.fit(features, codes, sample_weight=question.weight[train])

    def log_odds(self, features: Floats) -> Floats:
        """Return log q/prior: [n, classes]."""
        q = np.zeros((len(features), len(self.prior)))
        q[:, self.known] = 1 if self.model is None else self.model.predict_proba(features)
        return np.asarray(np.log((1 - self.doubt) * q / self.prior + self.doubt))


def few_columns(x: Floats) -> bool:
    """Return whether x [n, k] has few enough columns for classifiers without shrinkage."""
    return bool(x.shape[1] <= SQUARED)


def experts(x: Floats) -> list[Expert]:
    """Return the classifiers for standardised features x [n, k]."""
    columns = x.shape[1]
    if columns == 0:
        return []
    if columns > COMPONENTS:
        leading = principal_components(x, COMPONENTS).astype(np.float32)
        return [Expert(leading, _shrunk(strength)) for strength in (1e-4, 1e-2)]
    if few_columns(x):
        found = [Expert(x, _unshrunk(1e2)), Expert(with_squares(x), _unshrunk(1e4))]
    else:
        found = [Expert(x, _shrunk(strength)) for strength in (1e-2, 1.0)]
    if columns <= GROWN and len(x) >= GROWN_FROM:
        found.append(Expert(x, small_trees, splits=True))
    return found


def linear_features(x: Floats) -> Floats:
    """Return the features for a linear rule: x [n, k] if k is small, else leading components.

    There are at most `SQUARED` features, so that classifiers need no shrinkage.
    """
    return x if few_columns(x) else principal_components(x, SQUARED).astype(np.float64)


def linear_experts(x: Floats) -> list[Expert]:
    """Return logistic regression with a very small penalty, on `linear_features`."""
    # Not Newton's method: its Hessian grows with the square of the number of classes.
    return [Expert(linear_features(x), _shrunk(1e2))] if x.shape[1] else []


def principal_components(x: Floats, count: int, *, whiten: bool = True) -> Floats:
    """Return the leading components of x [n, k], with variance 1 if whitened: [n, ≤ count]."""
    x = x.astype(np.float32)
    values, vectors = np.linalg.eigh((x.T @ x).astype(np.float64) / len(x))
    kept = np.flatnonzero(values > 1e-6 * values[-1])[::-1][:count]
    axes = vectors[:, kept]
    # Fix the sign of the axes, which is arbitrary.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(kept))])
    return np.asarray(x @ (axes / np.sqrt(values[kept]) if whiten else axes))


def with_squares(x: Floats) -> Floats:
    """Return x [n, k] with the standardised products of all pairs of columns: [n, k(k + 3)/2]."""
    first, second = np.triu_indices(x.shape[1])
    products = x[:, first] * x[:, second]
    spread = products.std(axis=0)
    # The square of a column of two equally frequent values is constant.
    varies = spread > 1e-9
    products = (products - products.mean(axis=0))[:, varies] / spread[varies]
    return np.concatenate([x, products], axis=1)


def _unshrunk(strength: float) -> Callable[[], LogisticRegression]:
    """Return logistic regression with a very small penalty; Newton handles collinear columns."""
    return lambda: LogisticRegression(C=strength, solver="newton-cholesky", max_iter=50)


def _shrunk(strength: float) -> Callable[[], LogisticRegression]:
    return lambda: LogisticRegression(C=strength, max_iter=200)


def small_trees(bins: int = 255) -> HistGradientBoostingClassifier:
    """Return a few small boosted trees, which find steps and interactions within a second.

    For columns with few distinct values, fewer `bins` give the same trees faster.
    """
    return HistGradientBoostingClassifier(
        max_bins=bins,
        max_iter=40,
        learning_rate=0.15,
        max_leaf_nodes=8,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )


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
