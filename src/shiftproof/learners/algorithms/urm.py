"""URM: features that a discriminator cannot tell from uniform noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.core.space import Choice, Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, Outputs, rate, share, weight
from shiftproof.learners.algorithms.discriminator import Discriminator

WIDTH = 100
LEAK = 0.01
# Activations of the features, each with the interval of the noise.
ACTIVATIONS: dict[str, tuple[type[nn.Module], float, float]] = {
    "tanh": (nn.Tanh, -1.0, 1.0),
    "relu": (nn.ReLU, 0.0, 1.0),
    "sigmoid": (nn.Sigmoid, 0.0, 1.0),
}


@ALGORITHMS.register("urm")
class URM(ERM):
    """Make features z = s(φ(x)) uniform in their range: L_E + λ mean B(δ(z), 1).

    The discriminator δ distinguishes features from noise u, which is uniform in [−1, 1]ᵏ or
    [0, 1]ᵏ, depending on the activation s:

        L_D = mean B(δ(u), 1) + λ mean B(δ(z), 0),

    with B(a, t) the binary cross-entropy of a logit a and a target t.  Uniform features have the
    largest entropy, so that no direction is left out.  Each update takes a step of φ and ψ, then
    one of δ on the same features, each with its own Adam.  With label smoothing s, targets 1 are
    drawn from U(1 − s, 1) and targets 0 from U(0, s).  Domains are not compared.

    Paper: Krishnamachari et al. (2024), *Uniformly Distributed Feature Representations for Fair
    and Robust Learning*; the networks are those of DomainBed.
    """

    family = "representation"
    paper = "Krishnamachari et al. (2024)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ, s, and the discriminator."""

        adversarial_weight: float = weight(0.1, Float(0, 0.2), help="λ, weight of both losses")
        feature_activation: str = hparam(
            "tanh",
            Choice(("tanh", "relu")),
            choices=(*ACTIVATIONS,),
            help="s, activation after the featurizer",
        )
        discriminator_hidden_layers: int = hparam(
            1, Choice((1, 2, 3)), within=(0, 98), help="hidden layers after the first"
        )
        discriminator_lr: float = rate(
            1e-3,
            Float(-5.5, -3.5, base=10),
            regimes={"large-image": (5e-5, Float(-6, -4.5, base=10))},
            help="learning rate of the discriminator's Adam",
        )
        label_smoothing: float = share(
            0.0, help="width of the interval that each target is drawn from"
        )

    hparams: Hparams

    def setup(self) -> None:
        """Add the activation of the features and the discriminator."""
        h = self.hparams
        activation, *self.interval = ACTIVATIONS[h.feature_activation]
        self.featurizer = nn.Sequential(self.featurizer, activation())
        self.discriminator = Discriminator(
            self.num_features,
            1,
            width=WIDTH,
            depth=h.discriminator_hidden_layers + 2,
            dropout=0.0,
            generator=self.generator,
            leak=LEAK,
        )
        weights = self.discriminator.parameters()
        self.optimizers["discriminator"] = self.adam(weights, h.discriminator_lr, h.weight_decay)

    def objective(self, batch: Batch) -> Losses:
        """Return L_E + λ mean B(δ(z), 1), the loss of the network."""
        return self.network_losses(self.outputs(batch))

    def network_losses(self, outputs: Outputs) -> Losses:
        """Return the loss of the network, from its outputs."""
        risk = outputs.losses.mean()
        logits = self.discriminator(outputs.representations)
        adversary = F.binary_cross_entropy_with_logits(logits, torch.ones_like(logits))
        total = risk + self.hparams.adversarial_weight * adversary
        return Losses(total, {"risk": risk, "adversarial_loss": adversary})

    def discriminator_loss(self, features: Tensor) -> Tensor:
        """Return L_D of features [..., k], without gradient to the features."""
        low, high = self.interval
        noise = low + (high - low) * self._uniform(features)
        of_noise, of_features = self.discriminator(noise), self.discriminator(features.detach())
        smoothing = self.hparams.label_smoothing
        ones, zeros = torch.ones_like(of_noise), torch.zeros_like(of_features)
        if smoothing:
            ones = 1 - smoothing * self._uniform(ones)
            zeros = smoothing * self._uniform(zeros)
        loss = F.binary_cross_entropy_with_logits
        return loss(of_noise, ones) + self.hparams.adversarial_weight * loss(of_features, zeros)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take a step of the network, then one of the discriminator on the same features."""
        outputs = self.outputs(batch)
        losses = self.network_losses(outputs)
        self.descend(losses.total)
        adversary = self.discriminator_loss(outputs.representations)
        self.descend(adversary, "discriminator")
        self.updates += 1
        return {**losses.measured(), "discriminator_loss": adversary.detach()}

    def _uniform(self, like: Tensor) -> Tensor:
        """Return U(0, 1) numbers in the shape of a tensor."""
        return torch.rand(like.shape, generator=self.generator).to(like)
