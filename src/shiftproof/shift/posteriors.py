"""Posterior probabilities of the domain and the label of each sample, from all classifiers.

The classifiers of `panel` and the network are fitted without one fold and predict it.  Their log
odds are added with the weights that predict best in the other folds:

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
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import log_softmax, logsumexp  # type: ignore[import-untyped]

from shiftproof.core.cores import side_by_side
from shiftproof.information.base import Estimator, Parts, Shift
from shiftproof.information.classifiers import mixture
from shiftproof.information.experts import COMPONENTS, normal_scores
from shiftproof.information.no_shift import covariate_p, exact_p_values
from shiftproof.information.sample import Floats, Ints, LogRatio, Sample, checked
from shiftproof.shift.network import fit_networks
from shiftproof.shift.panel import (
    Task,
    Views,
    by_group,
    leading,
    models_by_domain,
    pooled,
    quiet,
    regressors,
    ridge_errors,
    stacked,
)

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Posteriors:
    """Out-of-sample log probabilities for each sample, in the order of a Sample.

    `domain` [n, D] is log q(d|x), `label` [n, D, C] is log q(y|x,d) for every d, and
    `mixed_label` [n, C] is log q(y|x).  Two fields leave out the network, which is slow to refit:
    `panel` [c, n, C] are the predictions of `panel.pooled`, and `home` [n, C] is log q(y|x,d) at
    each sample's own domain.
    """

    domain: Floats
    label: Floats
    mixed_label: Floats
    panel: Floats
    home: Floats

    def domain_given_label(self, y: Ints) -> Floats:
        """Return log q(d|x,y) ∝ q(d|x) q(y|x,d) at the labels y [n]: [n, D]."""
        both = self.domain + self.label[np.arange(len(y)), :, y]
        return np.asarray(both - logsumexp(both, axis=1, keepdims=True))


def posteriors(sample: Sample, *, seed: int, tick: Callable[[], None] = lambda: None) -> Posteriors:
    """Return the posteriors of every sample; `tick` is called `FOLDS` times."""
    views = Views.of(sample.x)
    fold = sample.folds(FOLDS, seed)
    n, domains, classes = len(sample.d), sample.domains, sample.classes
    none = np.zeros_like(sample.d)
    of_domain = Task(sample.d, domains, sample.weights, none, 1)
    of_label = Task(sample.y, classes, sample.weights, sample.d, domains)
    alone, known = pooled(views), by_group(views)
    domain = np.empty((len(alone) + 1, n, domains))
    label = np.empty((len(alone) + 1, n, classes))
    with_domain = np.empty((len(known) + 1, n, domains, classes))

    def by_networks() -> None:
        domain[-1], label[-1], with_domain[-1] = fit_networks(views.scores, sample, fold, seed)

    def by_panel(k: int) -> None:
        train, where = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        for place, predict in enumerate(alone):
            domain[place, where] = predict(of_domain, train, where)
            label[place, where] = predict(of_label, train, where)
        for place, predict in enumerate(known):
            with_domain[place, where] = predict(of_label, train, where)

    with quiet():
        folds: list[Callable[[], None]] = [functools.partial(by_panel, k) for k in range(FOLDS)]
        for place, _ in enumerate(side_by_side([by_networks, *folds])):
            if place:
                tick()
    shape = (len(label), *with_domain.shape[1:])
    without = np.broadcast_to(label[:, :, None], shape)
    q_domain = combine(domain, of_domain, fold)
    q_label = combine(np.concatenate([with_domain, without]), of_label, fold)
    without_networks = combine(np.concatenate([with_domain[:-1], without[:-1]]), of_label, fold)
    mixed = mixture(q_domain[:, None], q_label)
    q_mixed = combine(np.concatenate([label, mixed[None]]), of_label, fold)
    home = without_networks[np.arange(n), sample.d]
    return Posteriors(q_domain, q_label, q_mixed, label[:-1], home)


def combine(logs: Floats, task: Task, fold: Ints) -> Floats:
    """Combine log q of several classifiers [c, n, …, C], with weights from the other folds."""
    log_prior = np.log(task.prior)
    odds = logs - log_prior
    own = odds if odds.ndim == 3 else odds[:, np.arange(len(fold)), task.group]
    found = np.empty(logs.shape[1:])

    def add_up(k: int) -> None:
        rows = np.flatnonzero(fold != k)
        a = weigh(own[:, rows], log_prior, task.target[rows], task.weights[rows])
        here = np.flatnonzero(fold == k)
        there = odds.take(here, axis=1)
        found[here] = log_softmax(log_prior + np.tensordot(a, there, axes=1), axis=-1)

    list(side_by_side([functools.partial(add_up, k) for k in range(int(fold.max()) + 1)]))
    return found


def weigh(odds: Floats, log_prior: Floats, target: Ints, weights: Floats) -> Floats:
    """Return the weights a ≥ 0 of log odds [c, n, C] with the lowest log loss (convex)."""
    count = len(odds)
    odds = np.ascontiguousarray(odds)  # otherwise every product below copies them
    weights = weights / weights.sum()
    right = odds[:, np.arange(len(target)), target] @ weights

    def loss(a: Floats) -> tuple[float, Floats]:
        logits = log_prior + np.tensordot(a, odds, axes=1)
        normaliser = logsumexp(logits, axis=-1)
        q = np.exp(logits - normaliser[:, None]) * weights[:, None]
        slope = np.tensordot(odds, q, axes=([1, 2], [0, 1])) - right
        return float(weights @ normaliser - a @ right), slope

    found = minimize(
        loss, np.full(count, 1 / count), jac=True, method="L-BFGS-B", bounds=[(0, None)] * count
    )
    return np.asarray(found.x)


class LowerBounds(Estimator):
    """Lower bounds on the five amounts, from the posteriors of the same samples."""

    # The scores of a fold are learned from the others, so chance in one fold looks like a rule in
    # the others: without a shift, the mean has twice the variance of independent scores.
    widened = 2**0.5

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions behind the numbers."""
        return (
            "amounts are lower bounds, because they only count what these classifiers detect; the"
            " part of I(X;D) that they miss can appear as I(Y;D|X)",
        )


def log_ratio(logs: Floats, sample: Sample) -> LogRatio:
    """Return log q(d|·)/p(d) of each sample's domain, from log q(d|·) [n, D]."""
    right = logs[np.arange(len(sample.d)), sample.d]
    return LogRatio(right - np.log(sample.shares)[sample.d])


@dataclass(frozen=True, kw_only=True)
class Combined(LowerBounds):
    """Lower bounds for labels that are classes."""

    found: Posteriors
    method = "cross-fitted classifiers (linear, quadratic, densities, trees, network)"

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log q(d|x)/p(d)."""
        return log_ratio(self.found.domain, sample)

    def parts(self, sample: Sample) -> Parts:
        """Return all log ratios."""
        own = np.arange(len(sample.d))
        covariate = self.covariate_part(sample)
        with_domain = self.found.label[own, sample.d, sample.y]
        concept = LogRatio(with_domain - self.found.mixed_label[own, sample.y])
        p_values: dict[str, float] = {}
        if self.permutations:
            phi = self.functions(sample.x)
            p_values = exact_p_values(phi, sample, self.permutations, self.seed)
        return Parts(covariate, concept, covariate + concept, p_values)


@dataclass(frozen=True, eq=False)
class NumberPosteriors:
    """Out-of-sample predictions for each sample, in the order of a Sample.

    `domain` [n, D] is log q(d|x), `domain_given_label` log q(d|x,y) and `domain_by_label`
    log q(d|y).  `predicted` [n] is the label predicted from the inputs, `home` [n] that predicted
    by models that know the domain, and `panel` [c, n] are the predictions of `regressors`.
    """

    domain: Floats
    domain_given_label: Floats
    domain_by_label: Floats
    predicted: Floats
    home: Floats
    panel: Floats


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
    fold = sample.folds(FOLDS, seed)
    views = Views.of(sample.x)
    panel, with_domain = _predictions(views, sample, y, fold, tick)
    predicted = stacked(panel, y, sample.weights, fold)
    home = stacked(np.concatenate([panel, with_domain]), y, sample.weights, fold)
    z = normal_scores((y - predicted)[:, None])
    x = leading(sample.x, COMPONENTS - 2)  # room for two more columns
    # Densities and trees see only the first columns.
    inputs = Views.of(np.column_stack([_standardised(predicted), x]))
    both = Views.of(np.column_stack([z, _standardised(predicted), x]))
    q_domain, q_both = (
        fit_networks(seen.scores, sample, fold, seed).domain for seen in (inputs, both)
    )
    task = Task(sample.d, sample.domains, sample.weights, np.zeros_like(sample.d), 1)
    domain = combine(np.stack([*_answers(inputs, task, fold), q_domain]), task, fold)
    experts = [domain, _densities(inputs, z[:, 0], sample, fold)]
    given = combine(np.stack([*experts, *_answers(both, task, fold), q_both]), task, fold)
    alone = combine(np.stack(_answers(Views.of(y[:, None]), task, fold)), task, fold)
    return NumberPosteriors(domain, given, alone, predicted, home, panel)


def _predictions(
    views: Views, sample: Sample, y: Floats, fold: Ints, tick: Callable[[], None]
) -> tuple[Floats, Floats]:
    """Return out-of-fold predictions from inputs, and from inputs and own domain: [c, n] each."""
    alone, known = regressors(views), models_by_domain(views)
    panel, with_domain = np.empty((len(alone), len(y))), np.empty((len(known), len(y)))
    for k in range(FOLDS):
        train, where = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        for place, predict in enumerate(alone):
            panel[place, where] = predict(y, sample.weights, train, where)
        for place, predict_each in enumerate(known):
            found = predict_each(y, sample.weights, sample.d, train, where)
            with_domain[place, where] = found[np.arange(len(where)), sample.d[where]]
        tick()
    return panel, with_domain


def _answers(views: Views, task: Task, fold: Ints) -> list[Floats]:
    """Return out-of-fold log q(d|·) by each classifier of the panel: [n, D] each."""
    models = pooled(views)
    found: list[Floats] = [np.empty((len(fold), task.classes)) for _ in models]

    def answer(k: int) -> None:
        train, where = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        for place, predict in enumerate(models):
            found[place][where] = predict(task, train, where)

    with quiet():
        list(side_by_side([functools.partial(answer, k) for k in range(FOLDS)]))
    return found


def _densities(views: Views, z: Floats, sample: Sample, fold: Ints) -> Floats:
    """Return out-of-fold log N(z; m_d(x), s_d²) for every domain: [n, D]."""
    found = np.empty((len(z), sample.domains))
    for k in range(FOLDS):
        where = np.flatnonzero(fold == k)
        for domain in range(sample.domains):
            own = np.flatnonzero((fold != k) & (sample.d == domain))
            model, error = ridge_errors(views.raw[own], z[own])
            rest = z[where] - model.predict(views.raw[where])
            # One more row with unit variance keeps densities finite if a domain's labels are equal.
            variance = (len(own) * error + 1) / (len(own) + 1)
            found[where, domain] = -(rest**2 / variance + np.log(variance)) / 2
    return found


def _standardised(values: Floats) -> Floats:
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1))


@dataclass(frozen=True, kw_only=True)
class NumberCombined(LowerBounds):
    """Lower bounds for numeric labels."""

    found: NumberPosteriors
    method = "cross-fitted classifiers of the domain (linear, quadratic, densities, trees, network)"

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log q(d|x)/p(d)."""
        return log_ratio(self.found.domain, sample)

    def parts(self, sample: Sample) -> Parts:
        """Return the log ratios."""
        covariate = self.covariate_part(sample)
        joint = log_ratio(self.found.domain_given_label, sample)
        return Parts(covariate, joint - covariate, joint)

    def amounts(self, sample: Sample, y: Floats) -> Shift:
        """Return the amounts of a sample and its labels y [n], both from `checked_numbers`.

        Domains cannot be permuted within a label that no two rows share, so there is no exact test
        of I(X;D|Y) or I(Y;D|X).
        """
        p_values: dict[str, float | None] = {}
        if self.permutations:
            columns = {
                "covariate": sample.x,
                "label": y[:, None],
                "joint": np.column_stack([sample.x, y]),
            }
            p_values = {
                name: covariate_p(self.functions(own), sample, self.permutations, self.seed)
                for name, own in columns.items()
            }
        label = log_ratio(self.found.domain_by_label, sample)
        return self.shift_of(sample, self.parts(sample), label, p_values)
