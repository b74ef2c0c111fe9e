"""Conformal prediction sets of classes for a domain not seen in training.

Conformal sets for new rows of *known* domains treat rows as exchangeable.  At a new domain they are
not: only the domains are exchangeable.  Row i of held-out domain d has the score 1 − p(its class),
from a model not trained on d.  With K domains of n_d rows, let q be the (1 − α) quantile of

    Σ_d Σ_i δ(score of row i of d) / ((K + 1) n_d)  +  δ(∞) / (K + 1).

The set {class : 1 − p(class) ≤ q} then covers the class of a row of a new domain with probability
1 − α, over domains and rows (Dunn, Wasserman and Ramdas, 2023; Lee, Barber and Willett, 2023).
The mass at ∞ stands for the new domain.  With fewer than 1 / α − 1 domains (9 for 90%), q is
infinite and every set contains all classes.  No method can guarantee coverage with smaller sets
there, so q is computed from the K domains alone, and `promised` is False.

The scores come from models trained without one domain, the predictions from a model trained on
all.  As with the jackknife+ (Barber et al., 2021), the guarantee holds to the extent that leaving
out one domain changes the model little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.training.outputs import Outputs


@dataclass(frozen=True)
class Sets:
    """Prediction sets `members` [n, classes]; `promised` is whether the coverage is guaranteed."""

    members: np.ndarray
    promised: bool


def domain_sets(held_out: Sequence[Outputs], probabilities: np.ndarray, level: float) -> Sets:
    """Return prediction sets for probabilities [n, classes], calibrated on held-out domains."""
    threshold, promised = score_threshold(held_out, level)
    if held_out[0].probabilities.shape[1] != probabilities.shape[1]:
        raise DataError("the held-out runs have another number of classes than the model")
    # Files store single precision; a rounding error must not exclude a class.
    return Sets(1 - probabilities <= threshold + 1e-6, promised)


def score_threshold(held_out: Sequence[Outputs], level: float) -> tuple[float, bool]:
    """Return the quantile q of the scores, and whether there are enough domains to guarantee it."""
    if not 0 < level < 1:
        raise InvalidValue(f"`sets` must be between 0 and 1, not {level:g}")
    if not held_out:
        raise DataError("sets need runs with held-out domains; there are none")
    return domain_quantile(
        [1 - own.probabilities[np.arange(len(own.labels)), own.labels] for own in held_out], level
    )


def domain_quantile(scores: Sequence[np.ndarray], level: float) -> tuple[float, bool]:
    """Return the quantile q of the scores [n_d] of each domain, and whether it is guaranteed.

    If so, the score of a row of a new domain is at most q with probability at least `level`.
    """
    promised = len(scores) >= domains_needed(level)
    return weighted_quantile(scores, level, len(scores) + promised), promised


def weighted_quantile(scores: Sequence[np.ndarray], level: float, domains: int) -> float:
    """Return the quantile of the scores, where each domain has total weight 1 / `domains`."""
    mass = 1 / domains
    weights = np.concatenate([np.full(len(own), mass / len(own)) for own in scores])
    values = np.concatenate(scores)
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= level - 1e-9
    return float(values[order][reached.argmax()])


def domains_needed(level: float) -> int:
    """Return the number of domains needed to guarantee coverage at this level.

    >>> domains_needed(0.9), domains_needed(0.95), domains_needed(0.5)
    (9, 19, 1)
    """
    return math.ceil(1 / (1 - level) - 1 - 1e-9)
