"""PDM class by class: match what a class looks like, whatever its share of each domain.

Matching all samples at once pulls classes onto each other where domains hold them in different
shares: with representations that separate the classes, the quantiles of a domain of 90% class 1
are not those of a domain of 40% class 1, and making them equal undoes the separation.  The
decomposition I(R,Y;D) = I(Y;D) + I(R;D|Y) says what can be matched without harm: the second term.

    PDM_p(x | y) = (1/|S|) Σ_{c ∈ S} PDM_p({xⁱ of class c} for each domain i),

with S the classes that every domain of the batch holds; 0 if there is none.
"""

from __future__ import annotations

import torch
from torch import Tensor

from shiftproof.matching.pdm import Order


def pdm_by_class(x: Tensor, y: Tensor, classes: int, order: Order = 2) -> Tensor:
    """Return the mean of PDM over the classes that all domains hold, a scalar ≥ 0.

    x [domains, batch, dims], y [domains, batch] in 0 … classes − 1.  Nothing waits for the device:
    shapes do not depend on the labels.

    The samples of each domain stand in order of class, then value, and carry weights such that
    each shared class takes the same share of [0, 1] in every domain.  So one pass over the
    quantile functions compares every class with itself, exactly as
    `pdm` does for groups of unequal sizes.

    >>> x = torch.tensor([[[0.0], [0.0], [9.0]], [[1.0], [9.0], [9.0]]])
    >>> pdm_by_class(x, torch.tensor([[0, 0, 1], [0, 1, 1]]), classes=2)
    tensor(0.1250)
    """
    counts = torch.zeros(len(x), classes, dtype=x.dtype, device=x.device)
    counts.scatter_add_(1, y, torch.ones_like(y, dtype=x.dtype))
    shared = (counts > 0).all(dim=0)
    share = shared / (counts * shared.sum()).clamp(min=1)  # of [0, 1], for each sample
    y, order_of_class = y.sort(dim=1)
    ranked = _sorted_within(x.gather(1, order_of_class.unsqueeze(-1).expand_as(x)), y)
    levels = share.gather(1, y).cumsum(dim=1)  # where each sample's share ends
    edges = levels.flatten().sort().values.clamp(max=1)
    widths = edges.diff(prepend=edges.new_zeros(1))
    middles = (edges - widths / 2).expand(len(x), -1).contiguous()
    place = torch.searchsorted(levels, middles).clamp(max=x.shape[1] - 1)
    pieces = ranked.gather(1, place.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    deviation = pieces - pieces.mean(dim=0)
    powered = deviation.square() if order == 2 else deviation.abs()
    return (powered.mean(dim=(0, 2)) * widths).sum()


def _sorted_within(x: Tensor, y: Tensor) -> Tensor:
    """Sort each dimension of x [domains, batch, dims] within runs of equal y [domains, batch]."""
    by_value = x.detach().argsort(dim=1)
    # Stable: what is already in order of value stays so within a class.
    by_class = y.unsqueeze(-1).expand_as(x).gather(1, by_value).argsort(dim=1, stable=True)
    return x.gather(1, by_value.gather(1, by_class))
