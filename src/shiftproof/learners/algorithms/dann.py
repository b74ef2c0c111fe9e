"""DANN: representations from which a discriminator cannot tell the domain."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Choice, Float, Int, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, Losses, decay, memory, size, weight
from shiftproof.learners.algorithms.discriminator import TakesTurns
from shiftproof.learners.algorithms.hparams import adam_rate
from shiftproof.models.risk import per_sample_risk


def input_gradient_penalty(risk: Tensor, inputs: Tensor) -> Tensor:
    """Return (1/n) Σⱼ ‖∂ℓⱼ/∂zⱼ‖², differentiable.

    risk [...] holds the losses ℓⱼ of the n samples, and inputs [..., k] their inputs zⱼ.
    """
    (gradients,) = torch.autograd.grad(risk.sum(), inputs, create_graph=True)
    return gradients.square().sum(dim=-1).mean()


@ALGORITHMS.register("dann")
class DANN(TakesTurns):
    """Fool a domain discriminator δ on z = φ(x): minimise L_E − λ min_δ L_D over φ and ψ.

    With d the domain of a sample, L_D = mean ℓ(δ(z), d) + ρ mean ‖∂ℓ/∂z‖².  Updates alternate: s
    updates of δ on L_D, then one of φ and ψ on L_E − λ L_D.  Both use Adam with β = (β₁, 0.9).

    Paper: Ganin et al. (2016), *Domain-Adversarial Training of Neural Networks*.
    """

    family = "representation"
    paper = "Ganin et al. (2016)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(TakesTurns.Hparams):
        """λ, ρ, s, and the discriminator's network and optimiser."""

        adversarial_weight: float = weight(
            1.0, Float(-2, 2, base=10), help="λ, weight of the adversarial loss"
        )
        discriminator_steps: int = hparam(
            1,
            Int(0, 3, base=2),
            within=(1, 1e9),
            help="s, discriminator updates per network update",
        )
        discriminator_gradient_penalty: float = weight(
            0.0, Float(-2, 1, base=10), help="ρ, weight of the gradient penalty"
        )
        discriminator_lr: float = adam_rate(help="learning rate of the discriminator's Adam")
        discriminator_weight_decay: float = decay(
            0.0, Float(-6, -2, base=10), help="weight decay of the discriminator's Adam"
        )
        adam_beta1: float = memory(0.5, Choice((0.0, 0.5)), help="β₁ of both Adams")
        discriminator_width: int = size(
            256, Int(6, 10, base=2), help="units in the discriminator's hidden layers"
        )
        discriminator_depth: int = hparam(
            3,
            Choice((3, 4, 5)),
            within=(2, 100),
            help="number of the discriminator's linear layers",
        )
        discriminator_dropout: float = hparam(
            0.0,
            Choice((0.0, 0.1, 0.5)),
            within=(0, 0.99),
            help="dropout in the discriminator's hidden layers",
        )

    hparams: Hparams

    def setup(self) -> None:
        """Add the discriminator."""
        h = self.hparams
        self.add_discriminator(h.discriminator_lr, h.discriminator_weight_decay)

    def objective(self, batch: Batch) -> Losses:
        """Return L_E − λ L_D, the loss of the network."""
        outputs = self.outputs(batch)
        risk = outputs.losses.mean()
        adversary = self.discriminator_loss(outputs.representations, batch.y)
        total = risk - self.hparams.adversarial_weight * adversary
        return Losses(total, {"risk": risk, "discriminator_loss": adversary})

    def discriminator_objective(self, batch: Batch) -> Losses:
        """Return L_D, the loss of the discriminator, without gradient to the featurizer."""
        with torch.no_grad():
            representations = self.features(batch)
        adversary = self.discriminator_loss(representations, batch.y)
        return Losses(adversary, {"discriminator_loss": adversary})

    def discriminator_loss(self, representations: Tensor, labels: Tensor) -> Tensor:
        """Return L_D of representations [domains, batch, k] with labels [domains, batch]."""
        inputs = self.discriminator_inputs(representations, labels).requires_grad_()
        shape = representations.shape[:2]
        domains = torch.arange(shape[0], device=labels.device).unsqueeze(1).expand(shape)
        risk = per_sample_risk(self.discriminator(inputs), domains)
        loss = self.mean_domain_risk(risk, labels)
        penalty_weight = self.hparams.discriminator_gradient_penalty
        if penalty_weight == 0:
            return loss
        return loss + penalty_weight * input_gradient_penalty(risk, inputs)

    def discriminator_inputs(self, representations: Tensor, labels: Tensor) -> Tensor:
        """Return the inputs of δ [domains, batch, k]: the representations."""
        return representations

    def mean_domain_risk(self, risk: Tensor, labels: Tensor) -> Tensor:
        """Return the mean of ℓ(δ(z), d) [domains, batch] over samples."""
        return risk.mean()
