"""Posterior probabilities of the domain for numeric labels.

The domain is discrete, so nothing has to be binned:

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

from shiftproof.core.cores import side_by_side
from shiftproof.information.base import Estimator, Parts, Shift
from shiftproof.information.experts import COMPONENTS, normal_scores, principal_components
from shiftproof.information.no_shift import covariate_p
from shiftproof.information.sample import Floats, Ints, LogRatio, Sample, checked
from shiftproof.shift.densities import Task
from shiftproof.shift.network import fit_networks
from shiftproof.shift.panel import Views, pooled, quiet
from shiftproof.shift.posteriors import FOLDS, combine
from shiftproof.shift.regressors import by_domain, regressors, ridge_errors, stacked


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
    x = sample.x if sample.x.shape[1] <= COMPONENTS - 2 else _leading(sample.x)
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
    alone, known = regressors(views), by_domain(views)
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


def _leading(x: Floats) -> Floats:
    """Return the leading components, scaled together, with room for two more columns."""
    x = principal_components(x, COMPONENTS - 2, whiten=False)
    return np.asarray(x / np.sqrt((x**2).mean()))


def _standardised(values: Floats) -> Floats:
    spread = values.std()
    return np.asarray((values - values.mean()) / (spread if spread > 0 else 1))


@dataclass(frozen=True, kw_only=True)
class NumberCombined(Estimator):
    """The five amounts for numeric labels, from posteriors of the same samples."""

    found: NumberPosteriors
    # As in `posteriors.Combined`.
    widened = 2**0.5
    method = "cross-fitted classifiers of the domain (linear, quadratic, densities, trees, network)"

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions behind the numbers."""
        return (
            "amounts are lower bounds, because they only count what these classifiers detect; the"
            " part of I(X;D) that they miss can appear as I(Y;D|X)",
        )

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log q(d|x)/p(d)."""
        return self._ratio(self.found.domain, sample)

    def parts(self, sample: Sample) -> Parts:
        """Return the log ratios."""
        covariate, joint = self.covariate_part(sample), self._joint(sample)
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
        label = self._ratio(self.found.domain_by_label, sample)
        return self.shift_of(sample, self.parts(sample), label, p_values)

    def _joint(self, sample: Sample) -> LogRatio:
        return self._ratio(self.found.domain_given_label, sample)

    def _ratio(self, logs: Floats, sample: Sample) -> LogRatio:
        own = logs[np.arange(len(sample.d)), sample.d]
        return LogRatio(own - np.log(sample.shares)[sample.d])
