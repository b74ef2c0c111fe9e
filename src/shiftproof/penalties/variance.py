"""Variances: across domains, within domains, and of the domains' risk gradients."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from shiftproof.core.errors import InvalidValue


def variance_across_domains(x: Tensor) -> Tensor:
    """Return (1/m) Σᵢ ‖xᵢ − x̄‖² / d, with x̄ the mean over domains: x [domains, …] → scalar.

    d is the number of elements of one xᵢ.  For risks xᵢ this is the penalty of V-REx (Krueger et
    al., 2021), for gradient variances that of Fishr (Rame et al., 2022).

    >>> variance_across_domains(torch.tensor([1.0, 3.0]))
    tensor(1.)
    """
    # For so few values, `var` and its derivative take three times as long.
    return (x - x.mean(dim=0)).square().mean()


def variance_within_domains(x: Tensor) -> Tensor:
    """Return the unbiased variance of each dimension in each domain, averaged over both.

    x [domains, batch, d], batch ≥ 2 → scalar.  A low variance bounds the entropy of x from above:
    the information bottleneck of Ahuja et al. (2021).

    >>> variance_within_domains(torch.tensor([[[1.0], [3.0]], [[5.0], [5.0]]]))
    tensor(1.)
    """
    if x.shape[1] < 2:
        raise InvalidValue(
            "a variance needs at least 2 samples per domain, not 1; raise `batch_size`"
        )
    return x.var(dim=1).mean()


def gradient_spread(risks: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Return Σᵢ ‖gᵢ − ḡ‖², with gᵢ = ∇Lᵢ by all parameters and ḡ their mean over domains.

    It is m times the trace of the covariance of the domains' gradients (Koyama and Yamaguchi,
    2020), and can be differentiated again.

    risks [domains], each a function of the parameters → scalar.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    per_domain = [
        torch.autograd.grad(risk, trained, create_graph=True, materialize_grads=True)
        for risk in risks
    ]
    spreads = []
    for gradients in zip(*per_domain, strict=True):
        stacked = torch.stack(gradients)
        spreads.append((stacked - stacked.mean(dim=0)).square().sum())
    return torch.stack(spreads).sum()
