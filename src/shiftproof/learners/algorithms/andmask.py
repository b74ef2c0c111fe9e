"""ANDMask: descend only where the domains' gradients agree in sign.

With g^i [domains, …] the gradient of domain i for one parameter tensor and ḡ its mean over domains,
the agreement of an entry is a = |(1/m) Σᵢ sign(g^i)| ∈ [0, 1], and the gradient to descend is

    (M ⊙ ḡ) / (10⁻¹⁰ + mean(M)),

with M the mask; the divisor preserves the step size if few entries are left.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, share


def sign_agreement(gradients: Tensor) -> Tensor:
    """Return a = |mean of signs over domains|: [domains, …] → […].

    >>> sign_agreement(torch.tensor([[2.0, 1.0], [0.5, -3.0]]))
    tensor([1., 0.])
    """
    return gradients.sign().mean(dim=0).abs()


def and_mask(gradients: Tensor, tau: float) -> Tensor:
    """Return the hard mask of Parascandolo et al. (2021): 1 where a ≥ τ, else 0.

    gradients [domains, …] → […], in single precision as published.
    """
    return (sign_agreement(gradients) >= tau).float()


def masked_mean(gradients: Tensor, mask: Tensor) -> Tensor:
    """Return (M ⊙ ḡ) / (10⁻¹⁰ + mean(M)): gradients [domains, …], mask […] → […]."""
    masked = mask * gradients.mean(dim=0) * (1 / (1e-10 + mask.mean()))
    return masked.to(gradients.dtype)


@ALGORITHMS.register("andmask")
class ANDMask(ERM):
    """Descend the mean gradient where domains agree: M ⊙ ḡ / mean(M), M = [|Σᵢ sign gⁱ| / m ≥ τ].

    gⁱ is the gradient of domain i's risk with respect to one parameter tensor, and
    ḡ = (1/m) Σᵢ gⁱ.  An entry is kept if its sign is the same in at least a share (1 + τ) / 2 of
    the m domains (`and_mask`).  Adam uses the masked gradient.

    Paper: Parascandolo et al. (2021), *Learning explanations that are hard to vary*.
    """

    family = "gradient"
    paper = "Parascandolo et al. (2021)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """The agreement required."""

        tau: float = share(1.0, Float(0.5, 1), help="τ, minimum agreement of gradient signs")

    hparams: Hparams

    def mask(self, gradients: Tensor) -> Tensor:
        """Return M […] for the domains' gradients [domains, …] of one parameter tensor."""
        return and_mask(gradients, self.hparams.tau)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step along the masked gradient."""
        optimizer = self.optimizers["main"]
        weights = [p for p in optimizer.param_groups[0]["params"] if p.requires_grad]
        risks, gradients = [], []
        for part in batch.by_domain():
            risk = part.weighted(self.sample_loss.risk(self.predict(part.x), part.y)).mean()
            gradients.append(torch.autograd.grad(risk, weights, materialize_grads=True))
            risks.append(risk.detach())
        for weight, of_domains in zip(weights, zip(*gradients, strict=True), strict=True):
            stacked = torch.stack(of_domains)
            weight.grad = masked_mean(stacked, self.mask(stacked))
        optimizer.step()
        self.updates += 1
        return {"loss": torch.stack(risks).mean()}
