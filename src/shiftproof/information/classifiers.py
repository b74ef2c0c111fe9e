"""Cross-fitted classifiers of the domain, and of the label with and without the domain.

For any classifier q, E log q(d|x)/p(d) = I(X;D) − E KL(p(d|x) ‖ q(d|x)) (Barber and Agakov, 2003),
so the best classifier gives I(X;D) and any other gives less.

The concept shift comes from classifiers of the label,

    I(Y;D|X) = E log q(y|x,d) / q(y|x),   with   q(y|x) = Σ_d q(d|x) q(y|x,d).

The mixture, instead of a second independent classifier q(y|x), fixes the sign of the error.  Since
KL is convex, E KL(p(y|x) ‖ q(y|x)) ≤ E KL(p(y|x,d) ‖ q(y|x,d)) if q(d|x) is correct: then the
estimate never exceeds the true value, however poor the classifiers of the label are.  With an
independent q(y|x), two domains that cover different parts of a curved p(y|x) would each be fitted
better alone, which would look like concept shift where there is none.  (The same number is E log
q(d|x,y)/q(d|x) with Bayes' q(d|x,y) ∝ q(d|x) q(y|x,d), so the chain rule holds exactly, and the
joint estimate is also that of Barber and Agakov.)  At the true distributions, all first
derivatives by q(d|x) and q(y|x,d) are zero, so errors enter only to second order.

`Posterior.cost` estimates the loss due to finite samples, which is added back.

`cross_fit` weights several classifiers by their loss on held-out folds.  For each fold k, the
classifiers are fitted on the other folds and predict k.  Their predictions are mixed in log space,

    log q(t|x) = log prior(t) + Σ_c a_c · log q_c(t|x)/prior(t) − log normaliser,   a_c ≥ 0,

where the weights a minimise the log loss on folds j ≠ k of classifiers fitted without j and k.
So neither classifiers nor weights depend on k.  Each fit without {j, k} is used for both k and j.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.information.base import Estimator, Parts
from shiftproof.statistics.features import SQUARED, linear_features, with_squares
from shiftproof.statistics.panel import Estimated, Model, Shares, Target, quiet, small_trees
from shiftproof.statistics.permutation import concept_p, exact_p_values
from shiftproof.statistics.sample import Floats, Ints, LogRatio, Sample
from shiftproof.statistics.stacking import log_weights, pooled_logs

# Boosted trees need this many samples.
GROWN_FROM = 5_000


@dataclass(frozen=True)
class Posterior:
    """Log probabilities of a target with C values, by models fitted without the sample.

    `fitted` [n, G, C] comes from the model fitted without the sample's fold; `refitted`
    [folds − 1, n, G, C] from the models fitted without one more fold.  Each of the G groups has its
    own model, which predicts every sample.
    """

    fitted: Floats
    refitted: Floats

    def cost(self, weights: Floats, group: Ints) -> float:
        """Return an estimate of E KL(p ‖ q) in nats, the loss due to finite samples.

        This is a delete-a-fold jackknife.  To first order, a model fitted on K − 1 folds differs
        from the true p by the mean of K − 1 independent terms, and from the refit without one of
        them by 1/√(K − 2) of that.  It measures the variance of a classifier, not its bias.
        """
        rows = np.arange(len(group))
        return jackknife_cost(self.fitted[rows, group], self.refitted[:, rows, group], weights)


def jackknife_cost(fitted: Floats, refitted: Floats, weights: Floats) -> float:
    """Return (K − 2) · mean KL(fitted ‖ refitted): fitted [n, C], refitted [K − 1, n, C]."""
    divergence = (np.exp(fitted) * (fitted - refitted)).sum(axis=-1)
    return float((len(refitted) - 1) * (divergence.mean(axis=0) @ weights))


def cross_fit(models: Sequence[Model], target: Target, fold: Ints) -> Posterior:
    """Predict the target [n] out of fold.

    With several groups, every model is fitted on each group's samples separately, which gives
    q(t|x, g) for all g; the target's shares in the groups are an additional prediction.
    The weights sum to at least 1, so predictions differ from the true ones only by variance.
    """
    folds, n, log_prior = int(fold.max()) + 1, len(fold), np.log(target.prior)
    groups = target.groups
    shape = (n, groups, target.classes)
    fitted, refitted = np.empty(shape), np.empty((folds - 1, *shape))
    members = [np.flatnonzero(fold == k) for k in range(folds)]

    def predictions(train: Ints, where: Ints) -> Floats:
        """Return log q_c/prior of every model c, fitted on the rows `train`: [c, ·, G, C]."""
        if groups == 1:
            logs = [model.alone(target, train, where)[:, None] for model in models]
        else:
            logs = [model.by_group(target, train, where) for model in (*models, Shares())]
        return np.stack(logs) - log_prior if logs else np.zeros((0, len(where), *shape[1:]))

    with quiet():
        predicted = [predictions(np.flatnonzero(fold != k), members[k]) for k in range(folds)]
        without = {}
        for j, k in combinations(range(folds), 2):
            both = np.concatenate([members[j], members[k]])
            pair = predictions(np.flatnonzero((fold != j) & (fold != k)), both)
            without[j, k], without[k, j] = np.split(pair, [len(members[j])], axis=1)
    # without[j, k] predicts fold j, fitted on all but j and k.
    for k in range(folds):
        others = [j for j in range(folds) if j != k]
        rows = np.concatenate([members[j] for j in others])
        unseen = np.concatenate([without[j, k] for j in others], axis=1)
        unseen = unseen[:, np.arange(len(rows)), target.group[rows]]
        known, weights = target.values[rows], target.weights[rows]
        mixing = log_weights(unseen, log_prior, known, weights, 1.0)
        fitted[members[k]] = pooled_logs(predicted[k], log_prior, mixing)
        for position, j in enumerate(others):
            refitted[position, members[k]] = pooled_logs(without[k, j], log_prior, mixing)
    return Posterior(fitted, refitted)


def _models(x: Floats, *, linear: bool) -> list[Model]:
    """Return the classifiers for standardised features x [n, k], or for `SQUARED` components.

    Their choice depends only on the number of rows and columns, not on domains or labels.
    """
    x = linear_features(x)
    if x.shape[1] == 0:
        return []
    if linear:  # not Newton's method: its Hessian grows with the square of the number of classes
        return [_logistic(x, 1e2, max_iter=200)]
    # With a very small penalty; Newton's method handles collinear columns.
    newton = {"solver": "newton-cholesky", "max_iter": 50}
    models = [_logistic(x, 1e2, **newton), _logistic(with_squares(x), 1e4, **newton)]
    if len(x) >= GROWN_FROM:
        trees = functools.partial(small_trees, 255)
        models.append(Estimated(x, trees, indicators=True, rescaled=False))
    return models


def _logistic(x: Floats, strength: float, **settings: object) -> Model:
    build = functools.partial(LogisticRegression, C=strength, **settings)
    return Estimated(x, build, rescaled=False)


@dataclass(frozen=True, kw_only=True)
class CrossFitted(Estimator):
    """Cross-fitted classifiers of the domain and the label.

    With `linear` they are logistic regressions on the features, and the tests sum the features
    themselves.  Use it for the outputs of a model: they are made for a linear rule, softmax, so
    little is lost, and it takes milliseconds instead of minutes.
    """

    folds: int = 5
    linear: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds < 3:
            raise InvalidValue(f"`folds` must be at least 3, not {self.folds}")

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return "cross-fitted linear classifiers" if self.linear else "cross-fitted classifiers"

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions of the estimates."""
        stated = [
            "the classifiers can represent how domains and labels depend on the features;"
            " otherwise I(X;D) and I(X,Y;D) are too small, and I(Y;D|X) is too large by at most"
            " what I(X;D) lacks"
        ]
        if self.linear:
            stated.append("domains and labels depend on the features by a linear rule")
        if sample.x.shape[1] > SQUARED:
            stated.append(
                f"the {SQUARED} leading principal components represent the"
                f" {sample.x.shape[1]} features"
            )
        return tuple(stated)

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log q(d|x)/p(d)."""
        return _covariate(sample, self._domain(sample, _models(sample.x, linear=self.linear)))

    def parts(self, sample: Sample) -> Parts:
        """Return all log ratios, and the requested p-values."""
        models = _models(sample.x, linear=self.linear)
        domain = self._domain(sample, models)
        label = self._fitted(models, sample, sample.y, sample.d)
        mixed = mixture(domain.fitted, label.fitted)
        covariate = _covariate(sample, domain)
        concept = _concept(sample, domain, label, mixed)
        p_values = self._p_values(sample, np.exp(domain.fitted[:, 0]), np.exp(mixed))
        return Parts(covariate, concept, covariate + concept, p_values)

    def _domain(self, sample: Sample, models: Sequence[Model]) -> Posterior:
        """Return q(d|x)."""
        sizes = np.bincount(sample.d)
        if sizes.min() < self.folds:
            raise DataError(
                f"domain {sample.names[sizes.argmin()]} has {sizes.min()} samples, fewer than the"
                f" {self.folds} folds; leave it out or lower `folds`"
            )
        return self._fitted(models, sample, sample.d, np.zeros_like(sample.d))

    def _fitted(
        self, models: Sequence[Model], sample: Sample, values: Ints, group: Ints
    ) -> Posterior:
        classes, groups = int(values.max()) + 1, int(group.max()) + 1
        target = Target(values, classes, sample.weights, group, groups)
        return cross_fit(models, target, sample.folds(self.folds, self.seed))

    def functions(self, x: Floats) -> Floats:
        """Return the functions φ(x) that the tests of "no shift" compare."""
        return linear_features(x) if self.linear else super().functions(x)

    def _p_values(self, sample: Sample, q_domain: Floats, q_label: Floats) -> dict[str, float]:
        if not self.permutations:
            return {}
        phi, draws = self.functions(sample.x), (self.permutations, self.seed)
        concept = concept_p(phi, q_domain, q_label, sample, *draws)
        return {"concept": concept} | exact_p_values(phi, sample, *draws)


def _covariate(sample: Sample, domain: Posterior) -> LogRatio:
    rows = np.arange(len(sample.d))
    ratio = domain.fitted[rows, 0, sample.d] - np.log(sample.shares)[sample.d]
    return LogRatio(ratio, domain.cost(sample.weights, np.zeros_like(sample.d)))


def _concept(sample: Sample, domain: Posterior, label: Posterior, mixed: Floats) -> LogRatio:
    rows = np.arange(len(sample.d))
    ratio = label.fitted[rows, sample.d, sample.y] - mixed[rows, sample.y]
    cost = label.cost(sample.weights, sample.d)
    remixed = mixture(domain.refitted, label.refitted)
    return LogRatio(ratio, cost - jackknife_cost(mixed, remixed, sample.weights))


def mixture(domain: Floats, label: Floats) -> Floats:
    """Return log Σ_d q(d|x) q(y|x,d): domain [..., n, 1, D], label [..., n, D, C] → [..., n, C]."""
    return np.asarray(logsumexp(np.swapaxes(domain, -1, -2) + label, axis=-2))
