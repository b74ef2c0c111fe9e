"""Sets of classes that hold the right one, at a domain never seen.

Conformal sets for new rows of *known* domains treat rows as exchangeable.  At a new domain they are
not: domains are.  Row i of held-out domain d has the score 1 − p(its class), by a model that was
not trained on d.  With K domains of n_d rows, let q be the (1 − α) quantile of

    Σ_d Σ_i δ(score of row i of d) / ((K + 1) n_d)  +  δ(∞) / (K + 1).

The set {class : 1 − p(class) ≤ q} then holds the class of a row of a new domain with probability
1 − α, over domains and rows (Dunn, Wasserman and Ramdas, 2023; Lee, Barber and Willett, 2023).
The mass at ∞ stands for the new domain.  It makes q infinite, and every set complete, if there are
fewer than 1 / α − 1 domains: 9 for 90%.  No method can promise more there, so q is then taken from
the K domains alone, and `promised` is False.

The scores come from models that lack one domain, and the predictions from one that has all: as with
the jackknife+ (Barber et al., 2021), the guarantee holds as far as one domain does not change the
model much.
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
    """Which classes are in the set of each row [n, classes]; `promised`: if domains are enough."""

    members: np.ndarray
    promised: bool


def domain_sets(held_out: Sequence[Outputs], probabilities: np.ndarray, level: float) -> Sets:
    """Return the sets for probabilities [n, classes] from the answers on held-out domains."""
    threshold, promised = score_threshold(held_out, level)
    if held_out[0].probabilities.shape[1] != probabilities.shape[1]:
        raise DataError("the held-out runs have another number of classes than the model")
    # Single precision in files; a row must not be left out for a rounding error.
    return Sets(1 - probabilities <= threshold + 1e-6, promised)


def score_threshold(held_out: Sequence[Outputs], level: float) -> tuple[float, bool]:
    """Return the quantile q of the scores, and whether the domains suffice for its guarantee."""
    if not 0 < level < 1:
        raise InvalidValue(f"`sets` must be between 0 and 1, not {level:g}")
    if not held_out:
        raise DataError("sets need runs with held-out domains; there are none")
    return domain_quantile(
        [1 - own.probabilities[np.arange(len(own.labels)), own.labels] for own in held_out], level
    )


def domain_quantile(scores: Sequence[np.ndarray], level: float) -> tuple[float, bool]:
    """Return the quantile q of the scores [n_d] of each domain, and whether the domains suffice.

    If they do, the score of a row of a new domain is at most q with probability `level`.
    """
    promised = len(scores) >= domains_needed(level)
    return weighted_quantile(scores, level, len(scores) + promised), promised


def weighted_quantile(scores: Sequence[np.ndarray], level: float, domains: int) -> float:
    """Return the quantile of the scores of each domain, where each has the mass 1 / `domains`."""
    mass = 1 / domains
    weights = np.concatenate([np.full(len(own), mass / len(own)) for own in scores])
    values = np.concatenate(scores)
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= level - 1e-9
    return float(values[order][reached.argmax()])


def domains_needed(level: float) -> int:
    """Return the number of domains that sets of this level need.

    >>> domains_needed(0.9), domains_needed(0.95), domains_needed(0.5)
    (9, 19, 1)
    """
    return math.ceil(1 / (1 - level) - 1 - 1e-9)
