"""The effect of correcting class shares on held-out training domains.

Each training domain is treated as a new site and corrected by what is learnt from the others
(`sites`): its shares move from the mean of its probabilities to an estimate, if a new site with
these rows would be corrected.  Its labels then show the gain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shiftproof.inference.adaptation.matching_shares import with_shares
from shiftproof.inference.adaptation.sites import (
    Site,
    learnt,
    log_losses,
    moved_to_em,
    passes,
    target_shares,
)
from shiftproof.inference.adaptation.typical_inputs import TypicalRows, typical_inputs

# The normal quantile of one-sided bounds at the level of the tests.
BOUND = 1.645
# Mean log losses are shown to three decimals; a smaller change does not count.
NEGLIGIBLE = 0.001


@dataclass(frozen=True)
class Gains:
    """Mean gains of the correction over held-out training domains.

    ``log_loss`` and ``accuracy`` have standard errors over rows.  ``worst`` is the largest lower
    confidence bound of the accuracy lost in one domain.  ``error`` [c] is the root mean squared
    error of the shares.
    """

    log_loss: float
    log_loss_error: float
    accuracy: float
    accuracy_error: float
    worst: float
    error: np.ndarray

    @property
    def surely_raised_log_loss(self) -> bool:
        """Whether the mean log loss rose significantly."""
        return surely_below(self.log_loss, self.log_loss_error, -NEGLIGIBLE)


def surely_below(value: float, standard_error: float, limit: float) -> bool:
    """Return whether a value is significantly below a limit, by a one-sided test."""
    return value + BOUND * standard_error < limit


def held_out_gains(sites: Mapping[int, Site], rows: Mapping[int, TypicalRows]) -> Gains:
    """Return the gains of the correction; a domain that fails a test of a new site is unchanged.

    ``sites`` and ``rows`` are keyed by domain number; ``rows`` may lack some or all domains.
    """
    targets = _targets(list(sites.values()))
    gains, rights, errors = [], [], []
    for (number, site), shares in zip(sites.items(), targets, strict=True):
        may = _may_be_corrected(number, site, rows)
        after = with_shares(site.predicted, shares) if may else site.predicted
        gains.append(log_losses(site.predicted, site.y) - log_losses(after, site.y))
        right = [(p.argmax(axis=1) == site.y).astype(float) for p in (site.predicted, after)]
        rights.append(right[1] - right[0])
        errors.append(shares - site.shares)
    surely = [own.mean() + BOUND * own.std() / np.sqrt(len(own)) for own in rights]
    return Gains(
        *_mean_over_domains(gains),
        *_mean_over_domains(rights),
        max(0.0, -float(min(surely))),
        np.sqrt(np.mean(np.square(errors), axis=0)),
    )


def _targets(sites: Sequence[Site]) -> list[np.ndarray]:
    """Return the estimated shares of each site, with factors learnt from the other sites."""
    found = []
    for place, site in enumerate(sites):
        factors, noise = learnt([*sites[:place], *sites[place + 1 :]])
        usual = target_shares(site.training, site.predicted.mean(axis=0), site.em, factors)
        found.append(moved_to_em(usual, site.em, noise, site.variance, len(sites) - 1))
    return found


def _may_be_corrected(number: int, site: Site, rows: Mapping[int, TypicalRows]) -> bool:
    """Return whether a domain passes the tests of a new site against the other domains."""
    others = (own for other, own in rows.items() if other != number)
    inputs = typical_inputs(others, len(site.em)) if number in rows else None
    if inputs is None:
        return passes(site.score_p)
    return passes(site.score_p, inputs.p_value(rows[number].typicality, site.em))


def _mean_over_domains(rows: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the mean over domains of means over rows, and its standard error over rows."""
    variances = [own.var() / len(own) for own in rows]
    return float(np.mean([own.mean() for own in rows])), float(np.sqrt(sum(variances)) / len(rows))
