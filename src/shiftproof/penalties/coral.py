"""CORAL: the distance between domains in their first two moments."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from shiftproof.core.errors import InvalidValue
from shiftproof.core.tensors import in_full_precision
from shiftproof.penalties.variance import variance_across_domains


@in_full_precision
def coral(groups: Tensor | Sequence[Tensor]) -> Tensor:
    """Return the mean over pairs of groups of (1/k)‖μᵢ − μⱼ‖² + (1/k²)‖Cᵢ − Cⱼ‖², a scalar ≥ 0.

    μᵢ [k] and Cᵢ [k, k] are the mean and the (unbiased) covariance of group i.  Sun and Saenko
    (2016) match covariances; the means are added as in DomainBed.

    The mean of ‖aᵢ − aⱼ‖² over all pairs is twice the unbiased variance of the aᵢ, which needs one
    pass over the groups instead of m(m − 1)/2.

    Args:
        groups: [domains, batch, k], or a sequence of [batchᵢ, k] of any sizes ≥ 2.  For one group
            the result is 0.

    >>> coral(torch.tensor([[[0.0], [2.0]], [[3.0], [5.0]]]))  # same spread, means 3 apart
    tensor(9.)
    """
    if min(len(group) for group in groups) < 2:
        raise InvalidValue(
            "a covariance needs at least 2 samples per group, not 1; raise `batch_size`"
        )
    means = torch.stack([group.mean(dim=0) for group in groups])
    if len(groups) == 1:
        return 0 * means.sum()
    covariances = torch.stack([_covariance(group).view(-1) for group in groups])
    unbiased = len(groups) / (len(groups) - 1)
    return 2 * unbiased * (variance_across_domains(means) + variance_across_domains(covariances))


def _covariance(x: Tensor) -> Tensor:
    """Return the unbiased covariance [k, k] of x [n, k]; `torch.cov` would wait for the device."""
    centred = x - x.mean(dim=0)
    return centred.T @ centred / (len(x) - 1)
