"""Weights of an ensemble, fitted to predictions for held-out domains.

With p_j(y|x) the prediction of member j for a row whose domain it was not trained on, the ensemble
Σ_j w_j p_j has the risk

    L(w; v) = Σ_d v_d · mean over the rows of domain d of −log Σ_j w_j p_j(y|x),

with v_d the share of domain d (where rows have weights, the mean is weighted).  L is convex in w,
and its minimum over the simplex is standard stacking (Breiman, 1996; van der Laan et al., 2007).
With few domains, that minimum depends strongly on which domains they are.  The domains are the
sampling units, so their shares v are drawn from Dirichlet(1, …, 1) many times (the Bayesian
bootstrap, Rubin, 1981), and the weights are the mean of the minimisers: close to standard stacking
if the domains agree, and spread over members if they do not.

Finally, the weights are smoothed as a Dirichlet posterior: each of m domains counts as one
observation, and each of J members has one prior observation, w_j = (m ŵ_j + 1) / (m + J).  So the
weights stay nearly equal with few domains, and follow the data with many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftproof.learners.criterion import SMALLEST

# The longest step of the acceleration, in expectation–maximisation steps.
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
    """Return non-negative weights [members] that sum to 1, and their standard deviations.

    Args:
        chances: [members, n], the probability of each row's true class, predicted by members not
            trained on the row's domain.
        domain: [n], the domain of each row.
        seed: seed for drawing the domains' shares.
        draws: number of draws.
        weight: [n], sample weights within each domain; equal by default.

    With two domains, the weights of three members stay close to equal:

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
    """Return the share [n] of each row in its domain `place` [n]; shares sum to 1 per domain.

    >>> shares_within(np.array([0, 0, 1]), np.array([3.0, 1.0, 5.0])).tolist()
    [0.75, 0.25, 1.0]
    """
    own = np.ones(len(place)) if weight is None else weight
    shares: np.ndarray = own / np.bincount(place, own)[place]
    return shares


def mixture_proportions(likelihood: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the mixture proportions that minimise −Σ weight · log(w · likelihood).

    Uses expectation–maximisation with SQUAREM acceleration (Varadhan and Roland, 2008): every
    iterate stays on the simplex, and the risk never increases.
    """
    w = np.full(len(likelihood), 1 / len(likelihood))
    risk = _risk(w, likelihood, weight)
    for _ in range(200):
        first = _em(w, likelihood, weight)
        second = _em(first, likelihood, weight)
        step, bend = first - w, second - 2 * first + w
        if not bend.any():
            break  # converged
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
