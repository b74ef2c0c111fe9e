"""CAD's bottleneck: how well the domain of a sample can be predicted from its neighbours."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.core.tensors import in_full_precision

# The temperature to which the gradients of others are scaled (Khosla et al., 2020).
BASE_TEMPERATURE = 0.07


@in_full_precision
def domain_bottleneck(
    groups: Tensor,
    labels: Tensor | None = None,
    *,
    temperature: float,
    normalized: bool = False,
    flipped: bool = True,
) -> Tensor:
    """Return the contrastive bottleneck of Ruan et al. (2022), a scalar that falls with I(D;Z).

    Sample i picks another sample j of its pool with probability p(j|i) ∝ exp(zᵢ·zⱼ / τ).  With sᵢ
    the probability that j is from the domain of i, the result is the mean over samples of

        −(τ/τ₀) log(1 − sᵢ)  (`flipped`, ≥ 0),  or  (τ/τ₀) log sᵢ  (≤ 0),  τ₀ = 0.07.

    Both decrease as domains mix.  The former has the larger slope where domains are apart.

    groups [domains, batch, k] are the z, scaled to length 1 if `normalized`.  The pool of a sample
    is the rest of the batch.  With labels [domains, batch] it is the rest of its class: then the
    result bounds I(D;Z|Y).  Samples whose pool has no sample of another domain (or, if not
    `flipped`, of their own) are left out; if all are, the result is 0.
    """
    domains, size, _ = groups.shape
    z = groups.flatten(0, 1)
    z = F.normalize(z, dim=1) if normalized else z
    similar = z @ z.T / temperature
    pool = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    if labels is not None:
        pool = pool & (labels.flatten().unsqueeze(1) == labels.flatten())
    domain = torch.arange(domains, device=z.device).repeat_interleave(size)
    elsewhere = domain.unsqueeze(1) != domain
    sought = pool & (elsewhere if flipped else ~elsewhere)
    logs = log_sum(similar, sought) - log_sum(similar, pool)
    counted = sought.any(dim=1)
    mean = torch.where(counted, logs, 0).sum() / counted.sum().clamp_min(1)
    return (-1 if flipped else 1) * temperature / BASE_TEMPERATURE * mean


def log_sum(x: Tensor, chosen: Tensor) -> Tensor:
    """Return log Σⱼ exp(xᵢⱼ) over the chosen j of each row: x, chosen [n, l] → [n].

    A row with no chosen j gets an arbitrary finite number, so that its gradient can be dropped.

    >>> log_sum(torch.zeros(1, 3), torch.tensor([[True, True, False]])).exp()
    tensor([2.])
    """
    return x.masked_fill(~chosen, torch.finfo(x.dtype).min).logsumexp(dim=1)
