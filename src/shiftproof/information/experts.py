"""The classifiers that predict a domain or a label from features.

Which ones are asked depends on the number of columns alone, so the choice knows nothing of
domains or labels; how far each is believed is settled by `stacking`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from shiftproof.information.sample import Floats, Ints

# Above this many columns, only their leading principal components are used.
COMPONENTS = 128
# Up to this many columns, all their squares and products are used too …
SQUARED = 12
# … and boosted trees are grown, which take longer with each column and pay with many samples.
GROWN, GROWN_FROM = 32, 5_000


@dataclass(frozen=True)
class Expert:
    """A kind of classifier and the features it sees, [n, columns].

    `splits`: it can tell groups apart by itself if their numbers are one more column.
    """

    features: Floats
    build: Callable[[], LogisticRegression | HistGradientBoostingClassifier]
    splits: bool = False

    def log_odds(self, question: Question, train: Ints, where: Ints) -> Floats:
        """Learn the target on the rows `train`; return log q/prior at `where`: [·, classes]."""
        model = _Fit(self.build, self.features[train], question, train)
        return model.log_odds(self.features[where])

    def log_odds_by_group(self, question: Question, train: Ints, where: Ints) -> Floats:
        """Learn the target within each group; return log q/prior: [·, groups, classes]."""
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
    """What to predict: the target [n], the samples' weights [n] and groups [n], the prior."""

    target: Ints
    weight: Floats
    group: Ints
    prior: Floats

    @property
    def groups(self) -> int:
        """Return how many groups there are."""
        return int(self.group.max()) + 1


class _Fit:
    """A classifier fitted on the rows `train` of a question; it holds nothing impossible."""

    def __init__(
        self,
        build: Callable[[], LogisticRegression | HistGradientBoostingClassifier],
        features: Floats,
        question: Question,
        train: Ints,
    ) -> None:
        self.prior = question.prior
        # The share of the prior that is mixed in: as if it were one sample more.
        self.doubt = 1 / (len(train) + 1)
        self.known, codes = np.unique(question.target[train], return_inverse=True)
        self.model = None
        if len(self.known) > 1:
            self.model = build()
            with warnings.catch_warnings():
                # A fit that stopped early is a worse classifier, and will be believed less.
                warnings.simplefilter("ignore", ConvergenceWarning)
                # Many classes of few samples each are classes still.
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                self.model.fit(features, codes, sample_weight=question.weight[train])

    def log_odds(self, features: Floats) -> Floats:
        """Return log q/prior: [n, classes]."""
        q = np.zeros((len(features), len(self.prior)))
        q[:, self.known] = 1 if self.model is None else self.model.predict_proba(features)
        return np.asarray(np.log((1 - self.doubt) * q / self.prior + self.doubt))


def few_columns(x: Floats) -> bool:
    """Say whether a classifier of x [n, k] has so few parameters that it needs no restraint."""
    return bool(x.shape[1] <= SQUARED)


def experts(x: Floats) -> list[Expert]:
    """Return the classifiers to ask about features x [n, k], standardised."""
    columns = x.shape[1]
    if columns == 0:
        return []
    if columns > COMPONENTS:
        leading = principal_components(x, COMPONENTS).astype(np.float32)
        return [Expert(leading, _restrained(strength)) for strength in (1e-4, 1e-2)]
    if few_columns(x):
        found = [Expert(x, _unrestrained(1e2)), Expert(with_squares(x), _unrestrained(1e4))]
    else:
        found = [Expert(x, _restrained(strength)) for strength in (1e-2, 1.0)]
    if columns <= GROWN and len(x) >= GROWN_FROM:
        found.append(Expert(x, _trees, splits=True))
    return found


def linear_features(x: Floats) -> Floats:
    """Return what a linear rule sees of x [n, k]: all of few columns, else the leading components.

    There are at most `SQUARED` of them, so that classifiers need no restraint.
    """
    return x if few_columns(x) else principal_components(x, SQUARED).astype(np.float64)


def linear_experts(x: Floats) -> list[Expert]:
    """Return logistic regression with next to no penalty, on `linear_features`."""
    # Not by Newton's steps, whose equations grow with the square of the number of classes.
    return [Expert(linear_features(x), _restrained(1e2))] if x.shape[1] else []


def principal_components(x: Floats, count: int, *, whiten: bool = True) -> Floats:
    """Return the leading components of x [n, k], each of variance 1 if whitened: [n, ≤ count]."""
    x = x.astype(np.float32)
    values, vectors = np.linalg.eigh((x.T @ x).astype(np.float64) / len(x))
    kept = np.flatnonzero(values > 1e-6 * values[-1])[::-1][:count]
    axes = vectors[:, kept]
    # The sign of an axis is arbitrary; fix it.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(kept))])
    return np.asarray(x @ (axes / np.sqrt(values[kept]) if whiten else axes))


def with_squares(x: Floats) -> Floats:
    """Return x [n, k] with all its products of two columns, standardised: [n, k(k + 3)/2]."""
    first, second = np.triu_indices(x.shape[1])
    products = x[:, first] * x[:, second]
    spread = products.std(axis=0)
    # The square of a column of two equally frequent values is constant.
    varies = spread > 1e-9
    products = (products - products.mean(axis=0))[:, varies] / spread[varies]
    return np.concatenate([x, products], axis=1)


def _unrestrained(strength: float) -> Callable[[], LogisticRegression]:
    """Return logistic regression with next to no penalty; Newton's steps bear collinear columns."""
    return lambda: LogisticRegression(C=strength, solver="newton-cholesky", max_iter=50)


def _restrained(strength: float) -> Callable[[], LogisticRegression]:
    return lambda: LogisticRegression(C=strength, max_iter=200)


def _trees() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        max_iter=40,
        learning_rate=0.15,
        max_leaf_nodes=8,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
