"""The product of an inverse Hessian with a vector, from products with the Hessian alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Where an element of the sum is larger than this, the series does not converge.
LARGEST = 10.0


def neumann_inverse(product: Callable[[Tensor], Tensor], v: Tensor, terms: int) -> Tensor:
    """Return Σₖ (I − H)ᵏ v for k = 0 … `terms`, the beginning of a series for H⁻¹ v.

    It converges if all eigenvalues of H are in (0, 2).  A sum with an element beyond ±10 is taken
    as one that does not, and stops there (as in the code of Xu and Jaakkola, 2021).

    v [m, p] are m vectors, each with a Hessian of its own, and `product` maps such vectors to H v.

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
