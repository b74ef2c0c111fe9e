"""The formula of PDM: how far the sorted points of several domains lie from their common centre.

For points x [domains, …] and shares s [domains] with Σᵢ sᵢ = 1,

    spread_p = (1/(m·d)) Σ |Dᵢ|^p,   Dᵢ = xᵢ − sᵢ Σₖ xₖ,

over m domains and d numbers in each.  Equal shares 1/m make Dᵢ the deviation from the mean.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from shiftproof.core.errors import InvalidValue

Order = Literal[1, 2]


def centred(x: Tensor, shares: Tensor | None = None, *, overwrite: bool = False) -> Tensor:
    """Return D; `shares` [domains, 1, …] has as many axes as x, and None means 1/m each.

    With `overwrite`, D is written to x, which saves a pass over memory for large x.
    """
    if shares is None:
        return torch.sub(x, x.mean(dim=0), out=x if overwrite else None)
    return x.addcmul(shares, x.sum(dim=0), value=-1)


def spread(
    x: Tensor, order: Order, shares: Tensor | None = None, widths: Tensor | None = None
) -> Tensor:
    """Return the spread of x [domains, dims, levels], a scalar ≥ 0.

    `widths` [levels], which sum to 1, are the weights of levels of unequal width.
    """
    deviation = centred(x, shares)
    powered = deviation.square() if order == 2 else deviation.abs()
    return powered.mean() if widths is None else (powered.mean(dim=(0, 1)) * widths).sum()


def slope(deviation: Tensor, order: Order, shares: Tensor | None = None) -> Tensor:
    """Return ∂(Σ |D|^p)/∂x of a deviation D = `centred` (x), which is overwritten."""
    if order == 2:
        by_deviation = deviation.mul_(2)
        if shares is None:
            return by_deviation  # already sums to 0 over the domains
    else:
        by_deviation = deviation.sign_()
    if shares is None:
        return by_deviation.sub_(by_deviation.mean(dim=0))
    return by_deviation.sub_((by_deviation * shares).sum(dim=0))


def check_order(order: int) -> Order:
    """Return the order if it is 1 or 2, else raise."""
    if order not in (1, 2):
        raise InvalidValue(f"the order of matching must be 1 or 2, not {order}")
    return 1 if order == 1 else 2


def check_trim(trim: int, size: int) -> None:
    """Raise if trimming would leave out all values."""
    if not 0 <= 2 * trim < size:
        raise InvalidValue(f"cannot trim {trim} values from each end of {size}")
