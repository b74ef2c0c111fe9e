"""SAGM: sharpness-aware gradient matching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from shiftproof.core.space import Float, hparam
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.learners.algorithms.sam import SAM, ascent


@ALGORITHMS.register("sagm")
class SAGM(SAM):
    """Lower the risk, the worst risk nearby and their gap: ½ L_E(θ) + ½ L_E(θ + ε − α g).

    With g = ∇L_E(θ) and ε = ρ g / ‖g‖ as in SAM, the step −α g makes the gradients of L_E at θ and
    at θ + ε agree: to first order it adds −α ⟨∇L_E(θ + ε), g⟩ to the objective.  Adam's gradient is
    ½ g + ½ ∇L_E(θ + ε − α g), through which ε and α g are not differentiated.  With ρ = α = 0 it
    is ERM.

    As in the published code, the two losses are averaged; the paper adds them.  The code's search
    space for α excludes its default; here the search space surrounds it.

    Paper: Wang et al. (2023), *Sharpness-Aware Gradient Matching for Domain Generalization*.
    """

    paper = "Wang et al. (2023)"

    @dataclass(frozen=True)
    class Hparams(SAM.Hparams):
        """ρ and α."""

        alpha: float = hparam(
            0.001, Float(-4, -2, base=10), within=(0, 1e6), help="α, step that matches gradients"
        )

    hparams: Hparams

    def perturbation(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return ε − α g."""
        return ascent(gradients, self.hparams.rho, self.hparams.alpha)

    def combine(self, weights: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> None:
        """Average the gradient at the perturbed weights with g."""
        for weight, gradient in zip(weights, gradients, strict=True):
            if weight.grad is not None:
                weight.grad.lerp_(gradient, 0.5)
