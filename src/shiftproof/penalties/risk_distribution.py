"""RDM's penalties: the distance of the worst domain's losses from all, and their variances."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from shiftproof.penalties.mmd import INVERSE_WIDTHS, mmd
from shiftproof.penalties.variance import variance_within_domains

# The kernels of MMD and a wider one, as published.
RISK_INVERSE_WIDTHS = (0.0001, *INVERSE_WIDTHS)


class RiskPenalties(NamedTuple):
    """The penalties that RDM (Nguyen et al., 2024) adds to the risk, both scalars ≥ 0."""

    matching: Tensor  # MMD² of the worst domain's losses and the losses of all domains
    variance: Tensor  # the variance of the former plus that of the latter


def worst_against_all(losses: Tensor) -> RiskPenalties:
    """Compare the losses of the worst domain with those of all: losses [domains, batch ≥ 2].

    The worst domain has the largest mean loss, and is included in all domains.  MMD² is the biased
    estimate of `mmd`, with the kernels of `RISK_INVERSE_WIDTHS`; the variances are unbiased.
    """
    worst = losses.index_select(0, losses.mean(dim=1).argmax().unsqueeze(0)).view(1, -1, 1)
    everything = losses.view(1, -1, 1)
    return RiskPenalties(
        mmd([worst[0], everything[0]], RISK_INVERSE_WIDTHS),
        variance_within_domains(worst) + variance_within_domains(everything),
    )
