"""Cross-fitted predictions: several classifiers, mixed by how well each predicts unseen folds.

For each fold k, the classifiers are fitted on the other folds and speak about k.  They are mixed
in log space,

    log q(t|x) = log prior(t) + Σ_c a_c · log q_c(t|x)/prior(t) − log normaliser,   a_c ≥ 0,

where the weights a minimise the log loss on folds j ≠ k of classifiers fitted without j and k.
So neither classifiers nor weights have seen k.  Each fit without {j, k} serves both k and j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import log_softmax, logsumexp  # type: ignore[import-untyped]

from shiftproof.information.experts import Expert, Question
from shiftproof.information.sample import Floats, Ints


@dataclass(frozen=True)
class Posterior:
    """Log probabilities of a target with C values, by models that have not seen the sample.

    `fitted` [n, G, C] holds those of the model fitted without the sample's fold; `refitted`
    [folds − 1, n, G, C] those of the models that lacked one more fold each.  The G groups are
    those whose models were asked about every sample.
    """

    fitted: Floats
    refitted: Floats

    def cost(self, weights: Floats, group: Ints) -> float:
        """Return an estimate of E KL(p ‖ q): what not knowing p costs, in nats.

        A delete-a-fold jackknife.  To first order a model fitted on K − 1 folds differs from the
        truth by the mean of K − 1 independent terms, and from the refit that lacks one of them
        by 1/√(K − 2) of that.  It sees what chance does to a classifier, not what the
        classifier cannot express.
        """
        own = np.arange(len(group))
        return jackknife_cost(self.fitted[own, group], self.refitted[:, own, group], weights)


def jackknife_cost(fitted: Floats, refitted: Floats, weights: Floats) -> float:
    """Return (K − 2) · mean KL(fitted ‖ refitted): fitted [n, C], refitted [K − 1, n, C]."""
    divergence = (np.exp(fitted) * (fitted - refitted)).sum(axis=-1)
    return float((len(refitted) - 1) * (divergence.mean(axis=0) @ weights))


def cross_fit(
    experts: Sequence[Expert],
    target: Ints,
    fold: Ints,
    weights: Floats,
    group: Ints | None = None,
    *,
    restrained: bool,
) -> Posterior:
    """Predict the target [n] out of fold.

    With `group` [n], every expert is fitted on each group's samples alone, which gives
    q(t|x, g) for all g; the groups' own shares of the target are one more opinion.

    `restrained` lets the weights fall to 0, and adds experts fitted on all groups together:
    better predictions if there is much to fit, but small differences are smoothed away.  If not,
    the weights sum to 1 at least, and only chance stands between the prediction and the truth.
    """
    folds, classes = int(fold.max()) + 1, int(target.max()) + 1
    own_group = np.zeros_like(target) if group is None else group
    prior: Floats = np.bincount(target, weights, minlength=classes).astype(np.float64)
    panel = _Panel(experts, Question(target, weights * len(target), own_group, prior), restrained)
    n, groups = len(target), panel.question.groups
    fitted = np.empty((n, groups, classes))
    refitted = np.empty((folds - 1, n, groups, classes))

    members = [np.flatnonzero(fold == k) for k in range(folds)]
    spoken = {k: panel.opinions(np.flatnonzero(fold != k), members[k]) for k in range(folds)}
    without = {}
    for j, k in combinations(range(folds), 2):
        both = np.concatenate([members[j], members[k]])
        rest = np.flatnonzero((fold != j) & (fold != k))
        opinions = panel.opinions(rest, both)
        without[j, k], without[k, j] = np.split(opinions, [len(members[j])], axis=1)
    # without[j, k] speaks about fold j, fitted on all but j and k.
    for k in range(folds):
        others = [j for j in range(folds) if j != k]
        rows = np.concatenate([members[j] for j in others])
        heard = np.concatenate([without[j, k] for j in others], axis=1)
        heard = heard[:, np.arange(len(rows)), own_group[rows]]
        belief = _weigh(
            heard, np.log(prior), target[rows], weights[rows], 0.0 if restrained else 1.0
        )
        fitted[members[k]] = _mix(spoken[k], belief, prior)
        for position, j in enumerate(others):
            refitted[position, members[k]] = _mix(without[k, j], belief, prior)
    return Posterior(fitted, refitted)


@dataclass(frozen=True)
class _Panel:
    """The experts, and what they are asked."""

    experts: Sequence[Expert]
    question: Question
    restrained: bool

    def opinions(self, train: Ints, where: Ints) -> Floats:
        """Return log q_c/prior of every opinion c, fitted on the rows `train`: [c, ·, G, C]."""
        question = self.question
        shape = (len(where), question.groups, len(question.prior))
        found: list[Floats] = []
        if question.groups == 1 or self.restrained:
            found += [
                np.broadcast_to(expert.log_odds(question, train, where)[:, None], shape)
                for expert in self.experts
            ]
        if question.groups > 1:
            found += [expert.log_odds_by_group(question, train, where) for expert in self.experts]
            found.append(np.broadcast_to(self._shares(train), shape))
        return np.stack(found) if found else np.zeros((0, *shape))

    def _shares(self, train: Ints) -> Floats:
        """Return log of the target's shares in each group over the prior: [G, C]."""
        question = self.question
        counts = np.zeros((question.groups, len(question.prior)))
        np.add.at(counts, (question.group[train], question.target[train]), 1)
        # The prior counts as one sample of each group.
        shares = (counts + question.prior) / (counts.sum(axis=1, keepdims=True) + 1)
        return np.asarray(np.log(shares / question.prior))


def _mix(opinions: Floats, belief: Floats, prior: Floats) -> Floats:
    """Return the normalised mixture in log space: opinions [c, …, C] → [..., C]."""
    mixed: Floats = log_softmax(np.log(prior) + np.tensordot(belief, opinions, axes=1), axis=-1)
    return mixed


def _weigh(
    opinions: Floats, log_prior: Floats, target: Ints, weights: Floats, least: float
) -> Floats:
    """Return the weights a ≥ 0 of the opinions [c, n, C] with the least log loss (convex).

    Their sum is at least `least`.
    """
    count = len(opinions)
    if not count:
        return np.zeros(0)
    right = opinions[:, np.arange(len(target)), target]
    weights = weights / weights.sum()

    def loss(belief: Floats) -> tuple[float, Floats]:
        logits = log_prior + np.tensordot(belief, opinions, axes=1)
        normaliser = logsumexp(logits, axis=-1)
        q = np.exp(logits - normaliser[:, None])
        value = weights @ (normaliser - belief @ right - log_prior[target])
        gradient = np.einsum("cnk,nk,n->c", opinions, q, weights, optimize=True) - right @ weights
        return float(value), gradient

    found = minimize(
        loss,
        np.full(count, 1 / count),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * count,
        constraints={"type": "ineq", "fun": lambda belief: belief.sum() - least},
        options={"ftol": 1e-9},
    )
    return np.asarray(np.clip(found.x, 0, None))
