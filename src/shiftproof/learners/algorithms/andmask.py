"""ANDMask: descend only where the domains' gradients agree in sign."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.penalties.masks import and_mask, masked_mean


@ALGORITHMS.register("andmask")
class ANDMask(ERM):
    """Descend the mean gradient where domains agree: M ⊙ ḡ / mean(M), M = [|Σᵢ sign gⁱ| / m ≥ τ].

    gⁱ is the gradient of domain i's risk with respect to one parameter tensor, and
    ḡ = (1/m) Σᵢ gⁱ.  An entry is kept if its sign is the same in at least a share (1 + τ) / 2 of
    the m domains (`penalties.masks`).  Adam uses the masked gradient.

    Paper: Parascandolo et al. (2021), *Learning explanations that are hard to vary*.
    """

    family = "gradient"
    paper = "Parascandolo et al. (2021)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """The agreement required."""

        tau: float = hparam(
            1.0, Float(0.5, 1), within=(0, 1), help="τ, minimum agreement of gradient signs"
        )

    hparams: Hparams

    def mask(self, gradients: Tensor) -> Tensor:
        """Return M […] for the domains' gradients [domains, …] of one parameter tensor."""
        return and_mask(gradients, self.hparams.tau)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step along the masked gradient."""
        optimizer = self.optimizers["main"]
        weights = [p for p in optimizer.param_groups[0]["params"] if p.requires_grad]
        risks, gradients = [], []
        for own in batch.by_domain():
            risk = own.weighted(self.sample_loss.risk(self.predict(own.x), own.y)).mean()
            gradients.append(torch.autograd.grad(risk, weights, materialize_grads=True))
            risks.append(risk.detach())
        for weight, of_domains in zip(weights, zip(*gradients, strict=True), strict=True):
            stacked = torch.stack(of_domains)
            weight.grad = masked_mean(stacked, self.mask(stacked))
        optimizer.step()
        self.updates += 1
        return {"loss": torch.stack(risks).mean()}
