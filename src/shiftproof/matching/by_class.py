"""PDM class by class: match the samples of each class, whatever its share of each domain.

Matching all samples at once mixes up the classes if domains have different class proportions: with
representations that separate the classes, the quantiles of a domain of 90% class 1 are not those of
a domain of 40% class 1, and making them equal undoes the separation.  The decomposition
I(R,Y;D) = I(Y;D) + I(R;D|Y) shows what can be matched without harm: the second term.

    PDM_p(x | y) = (1/|S|) Σ_{c ∈ S} PDM_p({xⁱ of class c} for each domain i),

with S the classes present in every domain of the batch; 0 if there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from shiftproof.core.tensors import widened
from shiftproof.matching.sorting import sort_rows
from shiftproof.matching.spread import Order, check_order, spread


def pdm_by_class(
    x: Tensor | Sequence[Tensor], y: Tensor | Sequence[Tensor], classes: int, order: Order = 2
) -> Tensor:
    """Return the mean of PDM over the classes present in all domains, a scalar ≥ 0.

    x [domains, batch, dims], y [domains, batch] in 0 … classes − 1; or groups of any sizes,
    [batchᵢ, dims] and [batchᵢ].  Nothing waits for the device: shapes do not depend on the labels.

    The samples of each domain are sorted by class, then value, and weighted such that each shared
    class covers the same share of [0, 1] in every domain.  So one pass over the quantile functions
    compares every class with itself, exactly as `pdm` does for groups of unequal sizes.

    >>> x = torch.tensor([[[0.0], [0.0], [9.0]], [[1.0], [9.0], [9.0]]])
    >>> pdm_by_class(x, torch.tensor([[0, 0, 1], [0, 1, 1]]), classes=2)
    tensor(0.1250)
    """
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        # The padding of small groups gets an extra class, which has no share.
        x = pad_sequence(list(x), batch_first=True)
        y = pad_sequence(list(y), batch_first=True, padding_value=classes)
    rows = widened(x).transpose(1, 2).contiguous()  # [domains, dims, batch]
    counts = torch.zeros(len(x), classes + 1, dtype=rows.dtype, device=rows.device)
    counts.scatter_add_(1, y, torch.ones_like(y, dtype=rows.dtype))
    counts[:, classes] = 0
    shared = (counts > 0).all(dim=0)
    share = shared / (counts * shared.sum()).clamp(min=1)  # of [0, 1], for each sample
    ranked = rows.gather(2, _places(rows, y))
    levels = share.gather(1, y.sort(dim=1).values).cumsum(dim=1)  # where each sample's share ends
    edges = levels.flatten().sort().values.clamp(max=1)
    if edges.device.type == "cpu":
        edges = torch.unique(edges)  # a GPU would have to wait for the shape
    widths = edges.diff(prepend=edges.new_zeros(1))
    middles = (edges - widths / 2).expand(len(x), -1).contiguous()
    place = torch.searchsorted(levels, middles).clamp(max=rows.shape[2] - 1)
    pieces = ranked.gather(2, place.unsqueeze(1).expand(-1, rows.shape[1], -1))
    return spread(pieces, order, widths=widths)


class ClassMatch(nn.Module):
    """`pdm_by_class` as the `match` of a term, without a moving average."""

    def __init__(self, order: int) -> None:
        super().__init__()
        self.order = check_order(order)

    def forward(
        self, x: Tensor | Sequence[Tensor], y: Tensor | Sequence[Tensor], classes: int
    ) -> Tensor:
        """Return the penalty of points x and labels y."""
        return pdm_by_class(x, y, classes, self.order)


def _places(rows: Tensor, y: Tensor) -> Tensor:
    """Return the order by class, then value, of rows [domains, dims, batch] of classes y."""
    by_value = sort_rows(rows)[1]
    # Classes start at 1, because `sort_rows` keeps the order of equal values only above 0.
    classes = y.unsqueeze(1).expand_as(rows).gather(2, by_value).float() + 1
    return by_value.gather(2, sort_rows(classes)[1])
