"""The quantile of scores over domains, and how often intervals from it cover a held-out domain.

See `inference.conformal` for the theory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from shiftproof.metrics.base import LEVEL, Estimate
from shiftproof.metrics.classification import share_estimate
from shiftproof.metrics.outputs import NumberOutputs

# The name of the coverage in a report card, and the level of its intervals.
COVERAGE, COVERAGE_LEVEL = "interval_coverage", 0.9


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


def coverage_estimates(
    outputs: Mapping[str, NumberOutputs], level: float = LEVEL
) -> dict[str, Estimate | None]:
    """Return the coverage on each domain of `COVERAGE_LEVEL` intervals from all other domains.

    `level` is the level of the confidence interval of the coverage.  A single domain gets None.
    """
    found: dict[str, Estimate | None] = {}
    for domain, own in outputs.items():
        others = [other for name, other in outputs.items() if name != domain]
        if not others or not len(own.labels):
            found[domain] = None
            continue
        q, _ = domain_quantile(
            [np.abs(each.labels - each.predicted) for each in others], COVERAGE_LEVEL
        )
        found[domain] = share_estimate(np.abs(own.labels - own.predicted) <= q, level)
    return found
