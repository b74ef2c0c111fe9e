"""Weights of an ensemble, fitted to predictions for domains that were held out.

With p_j(y|x) the prediction of member j for a row whose domain it was not trained on, the ensemble
Σ_j w_j p_j has the risk

    L(w; v) = Σ_d v_d · mean over the rows of domain d of −log Σ_j w_j p_j(y|x),

with v_d the share of domain d (where rows have weights, the mean is weighted).  L is convex in w,
and its minimum over the simplex is the usual stack (Breiman, 1996; van der Laan et al., 2007).
Fitted to few domains it depends on which they happen to be.  The domains are the units that vary,
so their shares v are drawn from Dirichlet(1, …, 1) many times (the Bayesian bootstrap, Rubin,
1981), and the weights are the mean of the minima: close to the plain stack where the domains agree,
and spread where they do not.

Last, the weights are those of a Dirichlet posterior: each of m domains counts as one observation,
and each of J members has one beforehand, w_j = (m ŵ_j + 1) / (m + J).  So few domains leave the
weights nearly equal, and many decide them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftproof.learners.calibration import SMALLEST

# Steps of expectation–maximisation that one leap may stand for.
LONGEST_LEAP = 1e6


class Weights(NamedTuple):
    """The weights w [members], and their standard deviation over the draws of domains."""

    mean: np.ndarray
    spread: np.ndarray


def stacking_weights(
    chances: np.ndarray,
    domain: np.ndarray,
    seed: int,
    draws: int = 100,
    weight: np.ndarray | None = None,
) -> Weights:
    """Return w [members], not negative and summing to 1, and how sure they are.

    Args:
        chances: [members, n], the probability that each member gave to the true class of each row,
            as a member that was not trained on the row's domain.
        domain: [n], the row's domain.
        seed: of the draws of the domains' shares.
        draws: how many.
        weight: [n], how much each row counts within its domain; by default all count alike.

    With two domains, three members keep much of their equal shares:

    >>> chances = np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9], [0.1, 0.1, 0.1, 0.1]])
    >>> stacking_weights(chances, np.array([0, 0, 1, 1]), seed=0).mean.round(1).tolist()
    [0.4, 0.4, 0.2]
    """
    members = len(chances)
    names, place = np.unique(domain, return_inverse=True)
    likelihood = np.maximum(chances, SMALLEST)
    per_row = shares_within(place, weight)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(names)), draws)
    found = [mixture_proportions(likelihood, share[place] * per_row) for share in shares]
    weights = (len(names) * np.array(found) + 1) / (len(names) + members)
    return Weights(weights.mean(axis=0), weights.std(axis=0))


def shares_within(place: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the share [n] of each row in its domain, numbered by place [n]: they sum to 1 in each.

    >>> shares_within(np.array([0, 0, 1]), np.array([3.0, 1.0, 5.0])).tolist()
    [0.75, 0.25, 1.0]
    """
    own = np.ones(len(place)) if weight is None else weight
    shares: np.ndarray = own / np.bincount(place, own)[place]
    return shares


def mixture_proportions(likelihood: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the mixture proportions that minimise −Σ weight · log(w · likelihood).

    By expectation–maximisation, accelerated by squaring its steps (SQUAREM, Varadhan and Roland,
    2008): every iterate stays on the simplex, and the risk never rises.
    """
    w = np.full(len(likelihood), 1 / len(likelihood))
    risk = _risk(w, likelihood, weight)
    for _ in range(200):
        first = _em(w, likelihood, weight)
        second = _em(first, likelihood, weight)
        step, bend = first - w, second - 2 * first + w
        if not bend.any():
            break  # it no longer moves
        length = -np.clip(np.linalg.norm(step) / np.linalg.norm(bend), 1, LONGEST_LEAP)
        leap = np.maximum(w - 2 * length * step + length**2 * bend, 0)
        leap = _em(leap / leap.sum(), likelihood, weight)
        leapt = _risk(leap, likelihood, weight)
        plain = _risk(second, likelihood, weight)
        following, reached = (leap, leapt) if leapt <= plain else (second, plain)
        w = following
        if risk - reached < 1e-9:
            break
        risk = reached
    return w


def _em(w: np.ndarray, likelihood: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the proportions after one step of expectation–maximisation."""
    mixture = w @ likelihood
    following: np.ndarray = w * (likelihood @ (weight / mixture))
    following /= following.sum()
    return following


def _risk(w: np.ndarray, likelihood: np.ndarray, weight: np.ndarray) -> float:
    return -float(weight @ np.log(w @ likelihood))
