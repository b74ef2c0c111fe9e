"""The product of an inverse Hessian with a vector, using only products with the Hessian."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# If an element of the sum is larger than this, the series is taken to diverge.
LARGEST = 10.0


def neumann_inverse(product: Callable[[Tensor], Tensor], v: Tensor, terms: int) -> Tensor:
    """Return Σₖ (I − H)ᵏ v for k = 0 … `terms`, the truncated Neumann series of H⁻¹ v.

    The series converges if all eigenvalues of H are in (0, 2).  If an element of the sum exceeds
    ±10, it is taken to diverge and stops there (as in the code of Xu and Jaakkola, 2021).

    v [m, p] are m vectors, each with its own Hessian, and `product` maps such vectors to H v.

    >>> neumann_inverse(lambda v: 0.5 * v, torch.ones(1, 1), terms=1)
    tensor([[1.5000]])
    >>> neumann_inverse(lambda v: 0.5 * v, torch.ones(1, 1), terms=30)
    tensor([[2.]])
    """
    total = term = v
    for _ in range(terms):
        converging = total.abs().amax(dim=1, keepdim=True) <= LARGEST
        term = term - product(term)
        total = torch.where(converging, total + term, total)
    return total
