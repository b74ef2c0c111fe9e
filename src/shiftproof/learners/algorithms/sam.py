"""SAM: sharpness-aware minimisation, the gradient at the worst weights nearby."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.core.space import Choice, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, overwrite

# Smaller than any relevant gradient norm; avoids division by zero for a zero gradient.
TINY = 1e-12


def ascent(gradients: Sequence[Tensor], radius: float, descent: float = 0.0) -> list[Tensor]:
    """Return ε − α g, where ε = ρ g / ‖g‖ maximises the loss over ‖ε‖ ≤ ρ to first order.

    g are the gradients of all weights, and ‖g‖ is the norm of all of them together; ρ is `radius`
    and α is `descent`.

    >>> ascent([torch.tensor([3.0]), torch.tensor([4.0])], radius=0.5)
    [tensor([0.3000]), tensor([0.4000])]
    """
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    scale = radius / norm.clamp(min=TINY) - descent
    return [scale * gradient for gradient in gradients]


@contextmanager
def moved(weights: Sequence[Tensor], steps: Sequence[Tensor]) -> Iterator[None]:
    """Add a step to each weight inside the context, and restore the weights exactly after it."""
    before = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight, step in zip(weights, steps, strict=True):
            weight.add_(step)
    # Autocast caches the weights that it has cast, and would use the old ones.
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        overwrite(weights, before)
        torch.clear_autocast_cache()


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
