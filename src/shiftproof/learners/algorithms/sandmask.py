"""SANDMask: ANDMask with a smooth mask."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float, hparam
from shiftproof.learners.algorithms import ALGORITHMS, share
from shiftproof.learners.algorithms.andmask import ANDMask, sign_agreement

# The published code's value for an undefined mask entry.
NEGLIGIBLE = 1e-17


def sand_mask(gradients: Tensor, tau: float, k: float) -> Tensor:
    """Return the smooth mask of Shahtalebi et al. (2021): max(0, tanh(k (a − τ) / σ²)).

    σ² is the unbiased variance of an entry over domains (0 for one domain).  Where (a − τ) / σ² is
    0/0, the mask is `NEGLIGIBLE`.  gradients [domains, …] → […].
    """
    precision = gradients.var(dim=0, correction=min(1, len(gradients) - 1)).reciprocal()
    mask = torch.tanh(k * precision * (sign_agreement(gradients) - tau)).clamp(min=0)
    return mask.nan_to_num(nan=NEGLIGIBLE)


@ALGORITHMS.register("sandmask")
class SANDMask(ANDMask):
    """Descend the mean gradient, weighted by agreement: M ⊙ ḡ / mean(M), M = tanh(k (a − τ) / σ²)₊.

    gⁱ is the gradient of domain i's risk with respect to one parameter tensor, a = |Σᵢ sign gⁱ| / m
    the agreement of signs and σ² the variance of an entry over domains, so M lies in [0, 1]
    (`sand_mask`).  At τ = 1, the protocol's default, a − τ is never positive and nothing is
    learned, as in the published code.

    Paper: Shahtalebi et al. (2021), *SAND-mask: An Enhanced Gradient Masking Strategy for the
    Discovery of Invariances in Domain Generalization*.
    """

    paper = "Shahtalebi et al. (2021)"

    @dataclass(frozen=True)
    class Hparams(ANDMask.Hparams):
        """The required agreement and the steepness of the mask."""

        tau: float = share(
            1.0, Float(0, 1), help="τ, agreement of signs above which the mask is positive"
        )
        k: float = hparam(
            10.0, Float(-3, 5, base=10), within=(1e-12, 1e12), help="steepness of the mask"
        )

    hparams: Hparams

    def mask(self, gradients: Tensor) -> Tensor:
        """Return M […] for the domains' gradients [domains, …] of one parameter tensor."""
        return sand_mask(gradients, self.hparams.tau, self.hparams.k)
