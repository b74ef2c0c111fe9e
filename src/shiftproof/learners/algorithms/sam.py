"""SAM: sharpness-aware minimisation, the gradient at the worst weights nearby."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.core.space import Choice, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.penalties.sharpness import ascent, moved


@ALGORITHMS.register("sam")
class SAM(ERM):
    """Minimise the largest risk within a radius ρ of the weights: min_θ max_{‖ε‖≤ρ} L_E(θ + ε).

    To first order the maximum is at ε = ρ g / ‖g‖ with g = ∇L_E(θ).  Adam steps from θ with the
    gradient ∇L_E(θ + ε), treating ε as a constant.  A step costs two forward and backward passes.
    With ρ = 0 it is ERM.  Domains are not compared.

    Paper: Foret et al. (2021), *Sharpness-Aware Minimization for Efficiently Improving
    Generalization*; the values of ρ are those of Cha et al. (2021), *SWAD*.
    """

    family = "robust"
    paper = "Foret et al. (2021)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """ρ."""

        rho: float = hparam(
            0.05, Choice((0.01, 0.02, 0.05, 0.1)), within=(0, 1e6), help="ρ, radius around weights"
        )

    hparams: Hparams

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step with the gradient at the perturbed weights."""
        groups = self.optimizers["main"].param_groups
        weights: list[nn.Parameter] = [w for g in groups for w in g["params"] if w.requires_grad]
        losses = self.objective(batch)
        gradients = torch.autograd.grad(losses.total, weights, materialize_grads=True)
        self.optimizers["main"].zero_grad()
        with moved(weights, self.perturbation(gradients)):
            perturbed = self.objective(batch).total
            perturbed.backward()  # type: ignore[no-untyped-call]
        self.combine(weights, gradients)
        self.optimizers["main"].step()
        self.updates += 1
        return {**losses.measured(), "perturbed_risk": perturbed.detach()}

    def perturbation(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return the perturbation ε of the weights, given g."""
        return ascent(gradients, self.hparams.rho)

    def combine(self, weights: Sequence[nn.Parameter], gradients: Sequence[Tensor]) -> None:
        """Combine the gradient at the perturbed weights, `weight.grad`, with g; SAM ignores g."""
