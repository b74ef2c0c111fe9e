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
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import log_softmax, logsumexp  # type: ignore[import-untyped]

from shiftproof.core.cores import side_by_side
from shiftproof.information.base import Estimator, Parts
from shiftproof.information.classifiers import mixture
from shiftproof.information.no_shift import exact_p_values
from shiftproof.information.sample import Floats, Ints, LogRatio, Sample
from shiftproof.shift.densities import Task
from shiftproof.shift.network import fit_networks
from shiftproof.shift.panel import Views, by_group, pooled, quiet

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


@dataclass(frozen=True, kw_only=True)
class Combined(Estimator):
    """Lower bounds on the five amounts, from the posteriors of the same samples."""

    found: Posteriors
    # The scores of a fold are learned from the others, so chance in one fold looks like a rule in
    # the others: without a shift, the mean has twice the variance of independent scores.
    widened = 2**0.5
    method = "cross-fitted classifiers (linear, quadratic, densities, trees, network)"

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions behind the numbers."""
        return (
            "amounts are lower bounds, because they only count what these classifiers detect; the"
            " part of I(X;D) that they miss can appear as I(Y;D|X)",
        )

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log q(d|x)/p(d)."""
        own = np.arange(len(sample.d))
        return LogRatio(self.found.domain[own, sample.d] - np.log(sample.shares)[sample.d])

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
