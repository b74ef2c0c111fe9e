"""The information that matched points contain on their domain: the terms of the paper's bound."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from shiftproof.core.tensors import widened
from shiftproof.matching.gradients import LinearGradients, linear_head_gradients
from shiftproof.matching.sorting import sorted_values
from shiftproof.matching.spread import centred


@torch.no_grad()
def matching_information(x: Tensor | LinearGradients) -> Tensor:
    """Bound the information on the domain in one dimension of x, in nats, averaged over dimensions.

    x [domains, batch, dims], or the gradients of a linear head with domains of equal sizes.  The
    density estimates of the domains with Gaussian kernels of standard deviation h have
    I(x;D) ≤ PDM₂ / (2h²) in one dimension, with h = s · b^(−1/5) (Scott's rule; s the dimension's
    standard deviation, b the batch), and I(x;D) ≤ log m for m domains; the smaller bound is used.
    It is 0 for a constant dimension.  It does not bound the information of all dimensions together:
    correlations may differ between domains whose single dimensions do not.
    """
    if isinstance(x, Tensor):
        return _information(x).mean()
    r, e = (part.view(len(x.sizes), -1, part.shape[1]) for part in (x.with_ones(), x.residual))
    blocks = (
        _information(linear_head_gradients(r[..., features], e[..., outputs], bias=False))
        for outputs, features in x.blocks()
    )
    return torch.stack([block.sum() for block in blocks]).sum() / x.dims


def _information(x: Tensor) -> Tensor:
    """Return the bound for each dimension of x [domains, batch, dims]."""
    rows = widened(x).transpose(1, 2).contiguous()
    variance = rows.var(dim=(0, 2), correction=0)
    penalty = centred(sorted_values(rows)).square().mean(dim=(0, 2))
    bandwidth = variance * rows.shape[2] ** (-2 / 5)
    most = math.log(rows.shape[0])
    return torch.where(variance > 0, penalty / (2 * bandwidth), 0).clamp(max=most)
