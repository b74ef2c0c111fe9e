"""Simulated sites whose held-out predictions are known: classes are Gaussian scores."""

from __future__ import annotations

import numpy as np
from _internals import class_shares, held_out_HeldOut as HeldOut
from scipy.special import softmax


def weighted(log_likelihood: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Bayes' theorem: p(y|x) ∝ π(y) ℓ(y|x), [n, c]."""
    with np.errstate(divide="ignore"):
        found: np.ndarray = softmax(log_likelihood + np.log(shares), axis=1)
    return found


def scores(y: np.ndarray, rng: np.random.Generator, move: float = 0.0) -> np.ndarray:
    """Log densities [n, 2] of rows whose class means are −1.2 and 1.2, moved by a drift."""
    x = np.where(y == 1, 1.2, -1.2) + move + rng.normal(size=len(y))
    return np.stack([-0.5 * (x + 1.2) ** 2, -0.5 * (x - 1.2) ** 2], axis=1)


def training_sites(
    shares: list[float], rows: int, seed: int, drift: float = 0.0
) -> tuple[HeldOut, np.ndarray]:
    """Sites with shares of class 1, each predicted by a model with the others' shares.

    Scores within a class are moved by a random ``drift`` at each site.  Return the class shares of
    all rows too.
    """
    rng = np.random.default_rng(seed)
    y = np.concatenate([rng.random(rows) < share for share in shares]).astype(int)
    domain = np.repeat(np.arange(len(shares)), rows)
    moves = rng.normal(0, drift, len(shares)) if drift else np.zeros(len(shares))
    predicted = np.empty((len(y), 2))
    for site in range(len(shares)):
        own = domain == site
        logs = scores(y[own], rng, moves[site])
        predicted[own] = weighted(logs, class_shares(y[~own], 2))
    return HeldOut(predicted, y, domain, domain), class_shares(y, 2)


def new_site(
    share: float, training: np.ndarray, rows: int, seed: int, move: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities [n, 2] that the model gives a new site, and its classes."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < share).astype(int)
    return weighted(scores(y, rng, move), training), y
