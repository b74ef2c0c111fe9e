"""Posterior probabilities of the domain and the label of each sample, from all classifiers.

The classifiers of `statistics.panel` and the network are fitted without one fold and predict it.
Their log odds are added with the weights that predict best in the other folds:

    log q(t|x) = log prior(t) + Σ_c a_c · log q_c(t|x)/prior(t) − log normaliser,   a_c ≥ 0.

There are three posteriors: q(d|x); q(y|x,d) for every d; and q(y|x), the best prediction of the
label without the domain.  The last combines classifiers fitted to all domains together with the
mixture Σ_d q(d|x) q(y|x,d).

E log q(d|x)/p(d) is a lower bound: I(X;D) minus E KL(p(d|x) ‖ q(d|x)) (Barber and Agakov, 2003).
The bound on the concept shift holds up to that term, since KL is convex:

    E log q(y|x,d)/q(y|x)  ≤  I(Y;D|X) + E KL(p(d|x) ‖ q(d|x))

for the mixture, and no more for a q(y|x) that predicts better.  So what q(d|x) misses can look like
concept shift.  This is why there are many kinds of classifiers, and a separate q(y|x).

For numeric labels, only the domain has a posterior.  It is discrete, so nothing has to be binned:

    I(X;D) = E log q(d|x)/p(d),   I(Y;D) = E log q(d|y)/p(d),   I(Y;D|X) = E log q(d|x,y)/q(d|x),

with cross-fitted classifiers of the domain.  The first two are lower bounds (Barber and Agakov,
2003).  For the third,

    E log q(d|x,y)/q(d|x) = I(Y;D|X) − E KL(p(d|x,y) ‖ q(d|x,y)) + E KL(p(d|x) ‖ q(d|x)):

what q(d|x,y) misses hides concept shift, and what q(d|x) misses can look like it.  Three measures
prevent the latter.

- The most likely cause is a nonlinear rule: if Y ≈ f(X) reveals the domain, y reveals f(x) to a
  classifier that cannot learn f itself.  So ŷ(x), predicted from x alone without the sample's
  fold, is an additional feature of both, and q(d|x,y) sees (x, ŷ(x), the rank of y − ŷ(x)), which
  are as good as (x, y).
- q(d|x) is itself one of the predictions that q(d|x,y) combines.  Without concept shift, the best
  weight of all others is 0, and the log ratio vanishes.
- Another prediction is Bayes' rule with densities: log q(d|x) + log N(z; m_d(x), s_d²), where z is
  the normal score of the residual and m_d a ridge for each domain.  Its number of parameters grows
  with the columns, not with their products.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from shiftproof.core.cores import side_by_side
from shiftproof.information.base import Estimator, Parts, information
from shiftproof.information.classifiers import mixture
from shiftproof.statistics.features import COMPONENTS, leading, normal_scores
from shiftproof.statistics.panel import (
    Model,
    Shares,
    Target,
    Views,
    added,
    combined,
    out_of_fold,
    ridge_with_error,
)
from shiftproof.statistics.permutation import covariate_p, exact_p_values
from shiftproof.statistics.sample import Floats, Ints, LogRatio, Sample, checked
from shiftproof.statistics.small_network import fit_networks

FOLDS = 5


@dataclass(frozen=True, eq=False)
class _Posteriors:
    """Out-of-sample predictions for each sample, in the order of a Sample.

    `domain` [n, D] is log q(d|x), and `domain_given_label` [n, D] log q(d|x,y).  Of the label,
    `panel` [c, n, …] are the predictions of the panel's models, and `home` [n, …] those of models
    that know the domain; both leave out the network, which is slow to refit.
    """

    domain: Floats
    domain_given_label: Floats
    panel: Floats
    home: Floats


@dataclass(frozen=True, eq=False)
class ClassPosteriors(_Posteriors):
    """Posteriors for labels that are classes.

    `label` [n, D, C] is log q(y|x,d) for every d, and `mixed_label` [n, C] is log q(y|x).
    """

    label: Floats
    mixed_label: Floats
    method = "cross-fitted classifiers (linear, quadratic, densities, trees, network)"

    def concept(self, sample: Sample) -> LogRatio:
        """Return the log ratio of I(Y;D|X): log q(y|x,d)/q(y|x)."""
        rows = np.arange(len(sample.d))
        with_domain = self.label[rows, sample.d, sample.y]
        return LogRatio(with_domain - self.mixed_label[rows, sample.y])

    def label_shift(self, sample: Sample) -> LogRatio:
        """Return the log ratio of I(Y;D), from counts of the classes."""
        return information(sample.y, sample)

    def p_values(self, tests: Estimator, sample: Sample) -> Mapping[str, float]:
        """Return the p-values of covariate, joint and within-label shift."""
        return exact_p_values(tests.functions(sample.x), sample, tests.permutations, tests.seed)


def posteriors(
    sample: Sample, *, seed: int, tick: Callable[[], None] = lambda: None
) -> ClassPosteriors:
    """Return the posteriors of every sample; `tick` is called `FOLDS` times."""
    views, fold = Views.of(sample.x), sample.folds(FOLDS, seed)
    of_domain, rows = domain_target(sample), np.arange(len(sample.d))
    of_label = Target(sample.y, sample.classes, sample.weights, sample.d, sample.domains)
    models = views.classifiers()
    fits = [functools.partial(model.alone, of_domain) for model in models]
    fits += [functools.partial(model.alone, of_label) for model in models]
    fits += [functools.partial(model.by_group, of_label) for model in (*models, Shares())]
    tasks: list[Callable[[], Any]] = [
        functools.partial(fit_networks, views.scores, sample, fold, seed),
        functools.partial(out_of_fold, fits, fold, tick),
    ]
    networks, logs = side_by_side(tasks)
    count = len(models)
    domain = np.stack([*logs[:count], networks.domain])
    panel, with_domain = np.stack(logs[count : 2 * count]), np.stack(logs[2 * count :])
    label, known = np.stack([*panel, networks.label]), networks.known[None]

    def with_each_domain(logs: Floats) -> Floats:
        """Repeat log q(y|x) [c, n, C] for every domain."""
        return np.broadcast_to(logs[:, :, None], (*logs.shape[:2], *known.shape[2:]))

    q_domain = combined(domain, of_domain, fold)
    q_label = combined(
        np.concatenate([with_domain, known, with_each_domain(label)]), of_label, fold
    )
    without_network = np.concatenate([with_domain, with_each_domain(panel)])
    home = combined(without_network, of_label, fold)[rows, sample.d]
    mixed = mixture(q_domain[:, None], q_label)
    q_mixed = combined(np.concatenate([label, mixed[None]]), of_label, fold)
    given = q_domain + q_label[rows, :, sample.y]
    given = given - logsumexp(given, axis=1, keepdims=True)
    return ClassPosteriors(q_domain, given, panel, home, q_label, q_mixed)


def domain_target(sample: Sample) -> Target:
    """Return the domain as the target."""
    return Target(sample.d, sample.domains, sample.weights, np.zeros_like(sample.d), 1)


@dataclass(frozen=True, eq=False)
class NumberPosteriors(_Posteriors):
    """Posteriors for labels that are numbers.

    `y` [n] are the standardised labels, `domain_by_label` [n, D] is log q(d|y), and `predicted` [n]
    the label predicted from the inputs.
    """

    y: Floats
    domain_by_label: Floats
    predicted: Floats
    method = "cross-fitted classifiers of the domain (linear, quadratic, densities, trees, network)"

    def concept(self, sample: Sample) -> LogRatio:
        """Return the log ratio of I(Y;D|X): log q(d|x,y)/q(d|x)."""
        return log_ratio(self.domain_given_label, sample) - log_ratio(self.domain, sample)

    def label_shift(self, sample: Sample) -> LogRatio:
        """Return the log ratio of I(Y;D): log q(d|y)/p(d)."""
        return log_ratio(self.domain_by_label, sample)

    def p_values(self, tests: Estimator, sample: Sample) -> Mapping[str, float]:
        """Return the p-values of covariate, label and joint shift.

        Domains cannot be permuted within a label that no two rows share, so there is no exact test
        of I(X;D|Y) or I(Y;D|X).
        """
        columns = {
            "covariate": sample.x,
            "label": self.y[:, None],
            "joint": np.column_stack([sample.x, self.y]),
        }
        return {
            name: covariate_p(tests.functions(x), sample, tests.permutations, tests.seed)
            for name, x in columns.items()
        }


def checked_numbers(x: Floats, y: Floats, d: Ints) -> tuple[Sample, Floats]:
    """Return a Sample of x [n, k] without classes, and standardised numbers y [n] in its order.

    The values of y must not all be equal.
    """
    both = checked(np.column_stack([x, y]), None, d, balanced=True)
    return replace(both, x=both.x[:, :-1]), both.x[:, -1]


def number_posteriors(
    sample: Sample, y: Floats, *, seed: int, tick: Callable[[], None] = lambda: None
) -> NumberPosteriors:
    """Return the posteriors of every sample; `tick` is called `FOLDS` times."""
    fold, target = sample.folds(FOLDS, seed), domain_target(sample)
    of_label = Target(y, 0, sample.weights, sample.d, sample.domains)
    models = Views.of(sample.x).regressors()

    def at_home(model: Model, train: Ints, where: Ints) -> Floats:
        by_domain = model.by_group(of_label, train, where)
        return np.asarray(by_domain[np.arange(len(where)), sample.d[where]])

    fits = [functools.partial(model.alone, of_label) for model in models]
    fits += [functools.partial(at_home, model) for model in models]
    predictions = np.stack(out_of_fold(fits, fold, tick))
    panel = predictions[: len(models)]
    predicted = added(panel, of_label, fold)
    home = added(predictions, of_label, fold)
    z = normal_scores((y - predicted)[:, None])
    x = leading(sample.x, COMPONENTS - 2)  # room for two more columns
    # Densities and trees see only the first columns.
    inputs = Views.of(np.column_stack([_standardised(predicted), x]))
    both = Views.of(np.column_stack([z, _standardised(predicted), x]))

    def by_classifiers(views: Views) -> list[Floats]:
        return out_of_fold([functools.partial(m.alone, target) for m in views.classifiers()], fold)

    q_domain, q_both = (
        fit_networks(views.scores, sample, fold, seed).domain for views in (inputs, both)
    )
    domain = combined(np.stack([*by_classifiers(inputs), q_domain]), target, fold)
    densities = _densities(inputs, z[:, 0], sample, fold)
    given = combined(np.stack([domain, densities, *by_classifiers(both), q_both]), target, fold)
    by_label = combined(np.stack(by_classifiers(Views.of(y[:, None]))), target, fold)
    return NumberPosteriors(domain, given, panel, home, y, by_label, predicted)


def _densities(views: Views, z: Floats, sample: Sample, fold: Ints) -> Floats:
    """Return out-of-fold log N(z; m_d(x), s_d²) for every domain: [n, D]."""
    logs = np.empty((len(z), sample.domains))
    for k in range(FOLDS):
        where = np.flatnonzero(fold == k)
        for domain in range(sample.domains):
            train = np.flatnonzero((fold != k) & (sample.d == domain))
            model, error = ridge_with_error(views.raw[train], z[train])
            rest = z[where] - model.predict(views.raw[where])
            # One more row with unit variance keeps densities finite if a domain's labels are equal.
            variance = (len(train) * error + 1) / (len(train) + 1)
            logs[where, domain] = -(rest**2 / variance + np.log(variance)) / 2
    return logs


def _standardised(values: Floats) -> Floats:
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1))


def log_ratio(logs: Floats, sample: Sample) -> LogRatio:
    """Return log q(d|·)/p(d) of each sample's domain, from log q(d|·) [n, D]."""
    right = logs[np.arange(len(sample.d)), sample.d]
    return LogRatio(right - np.log(sample.shares)[sample.d])


@dataclass(frozen=True, kw_only=True)
class LowerBounds(Estimator):
    """Lower bounds on the five amounts, from the posteriors of the same samples."""

    posteriors: ClassPosteriors | NumberPosteriors
    # The scores of a fold are learned from the others, so chance in one fold looks like a rule in
    # the others: without a shift, the mean has twice the variance of independent scores.
    widened = 2**0.5

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return self.posteriors.method

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions behind the numbers."""
        return (
            "amounts are lower bounds, because they only count what these classifiers detect; the"
            " part of I(X;D) that they miss can appear as I(Y;D|X)",
        )

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log q(d|x)/p(d)."""
        return log_ratio(self.posteriors.domain, sample)

    def label_part(self, sample: Sample) -> LogRatio:
        """Return log p(d|y)/p(d)."""
        return self.posteriors.label_shift(sample)

    def parts(self, sample: Sample) -> Parts:
        """Return all log ratios."""
        covariate, concept = self.covariate_part(sample), self.posteriors.concept(sample)
        p_values = self.posteriors.p_values(self, sample) if self.permutations else {}
        return Parts(covariate, concept, covariate + concept, p_values)
