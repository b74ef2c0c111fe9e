"""SANDMask: ANDMask with a smooth mask."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from shiftproof.core.space import Float, hparam
from shiftproof.learners.algorithms.andmask import ANDMask
from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.penalties.masks import sand_mask


@ALGORITHMS.register("sandmask")
class SANDMask(ANDMask):
    """Descend the mean gradient, weighted by agreement: M ⊙ ḡ / mean(M), M = tanh(k (a − τ) / σ²)₊.

    gⁱ is the gradient of domain i's risk with respect to one parameter tensor, a = |Σᵢ sign gⁱ| / m
    the agreement of signs and σ² the variance of an entry over domains, so M lies in [0, 1]
    (`penalties.masks`).  At τ = 1, the protocol's default, a − τ is never positive and nothing is
    learned, as in the published code.

    Paper: Shahtalebi et al. (2021), *SAND-mask: An Enhanced Gradient Masking Strategy for the
    Discovery of Invariances in Domain Generalization*.
    """

    paper = "Shahtalebi et al. (2021)"

    @dataclass(frozen=True)
    class Hparams(ANDMask.Hparams):
        """The required agreement and the steepness of the mask."""

        tau: float = hparam(
            1.0,
            Float(0, 1),
            within=(0, 1),
            help="τ, agreement of signs above which the mask is positive",
        )
        k: float = hparam(
            10.0, Float(-3, 5, base=10), within=(1e-12, 1e12), help="steepness of the mask"
        )

    hparams: Hparams

    def mask(self, gradients: Tensor) -> Tensor:
        """Return M […] for the domains' gradients [domains, …] of one parameter tensor."""
        return sand_mask(gradients, self.hparams.tau, self.hparams.k)
