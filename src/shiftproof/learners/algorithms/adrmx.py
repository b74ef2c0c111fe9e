"""ADRMX: additive disentanglement of domain features, with a remix loss."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.core.space import Choice, hparam
from shiftproof.core.tensors import in_full_precision
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, Losses, decay, memory, rate, size, weight
from shiftproof.learners.algorithms.cad import BASE_TEMPERATURE, log_sum
from shiftproof.learners.algorithms.discriminator import TakesTurns
from shiftproof.learners.algorithms.sagnet import newly_initialised
from shiftproof.learners.algorithms.selfreg import same_class_partners
from shiftproof.models.pretrained import FrozenNorms


@in_full_precision
def supervised_contrast(features: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over samples i of −(1/|Pᵢ|) Σ_{j∈Pᵢ} log p(j|i) (Khosla et al., 2020), ≥ 0.

    p(j|i) ∝ exp(uᵢ·uⱼ / 0.07) over all j ≠ i, with u the features scaled to length 1, and Pᵢ are
    the other samples of i's class.  Samples with empty Pᵢ are left out; if all are, return 0.

    features [n, k], labels [n] → scalar.
    """
    u = F.normalize(features, dim=1)
    similar = u @ u.T / BASE_TEMPERATURE
    others = ~torch.eye(len(u), dtype=torch.bool, device=u.device)
    positive = others & (labels.unsqueeze(1) == labels)
    logs = similar - log_sum(similar, others).unsqueeze(1)
    counts = positive.sum(dim=1)
    per_sample = -torch.where(positive, logs, 0).sum(dim=1) / counts.clamp_min(1)
    return per_sample.sum() / (counts > 0).sum().clamp_min(1)


class Parts(NamedTuple):
    """Features of a batch, each [n, k], with its labels [n] and domains [n]."""

    whole: Tensor  # φ(x)
    of_domain: Tensor  # φ_D(x)
    invariant: Tensor  # φ(x) − φ_D(x)
    labels: Tensor
    domains: Tensor


@ALGORITHMS.register("adrmx")
class ADRMX(TakesTurns):
    """Subtract what tells the domain: z = φ(x) − φ_D(x), which a discriminator cannot place.

    A second featurizer φ_D learns domain-specific features.  A sample's z plus the φ_D of another
    sample of its class acts like a sample of that class from the other domain (remix).  The network
    minimises, with ℓ the cross-entropy, y the class and d the domain,

    | part | loss |
    |---|---|
    | both heads | mean ℓ(ψ(φ(x)), y) + mean ℓ(ψ′(z), y) |
    | domain | λ_D mean ℓ(ω(φ_D(x)), d) |
    | remix | λ_R mean ℓ(ψ(zⱼ + φ_D(x_π(j))), yⱼ) |
    | contrast | λ_C [K(φ(x), y) + K(z, y)] |
    | adversary | −λ mean ℓ(δ(z), d) |

    π shuffles the batch within its classes, and K is `learners.algorithms.adrmx`.  The
    discriminator δ minimises mean ℓ(δ(z), d), in alternation with the network.  Predictions are
    ψ(φ(x)).  φ_D starts from the weights of φ if these are pretrained, and from new ones otherwise.

    DomainBed remixes two samples per class, but takes them from the beginning of the batch,
    whatever their class.  Here all samples are remixed, with partners of their class.  DomainBed
    adds 10⁻⁵ to the denominator of each probability in K and inside its logarithm, which bounds the
    loss of a pair, and divides by one sample too many; here K does neither.  DomainBed's heads have
    three layers; here `nonlinear_head` sets ψ and ψ′, and ω is linear.

    Paper: Demirel et al. (2023), *ADRMX: Additive Disentanglement of Domain Features with Remix
    Loss*.
    """

    family = "representation"
    paper = "Demirel et al. (2023)"
    classes_only = "it remixes samples of one class"

    @dataclass(frozen=True)
    class Hparams(TakesTurns.Hparams):
        """The weights of the parts, and the discriminator's network."""

        lr: float = rate(
            3e-3,
            Choice((5e-4, 1e-3, 2e-3, 3e-3)),
            regimes={"large-image": (3e-5, Choice((2e-5, 3e-5, 4e-5, 5e-5)))},
            help="learning rate of both Adams",
        )
        # DomainBed draws it for all algorithms, but does not use it here.
        weight_decay: float = decay(0.0, help="weight decay of the network's Adam")
        contrast_weight: float = weight(1.0, help="λ_C, weight of the contrastive losses")
        domain_weight: float = weight(1.0, help="λ_D, weight of the domain classification loss")
        remix_weight: float = weight(1.0, help="λ_R, weight of the loss on remixed samples")
        adversarial_weight: float = weight(0.75, help="λ, weight of the adversarial loss")
        discriminator_steps: int = hparam(
            2, within=(1, 1e9), help="discriminator updates per network update"
        )
        adam_beta1: float = memory(0.5, help="β₁ of both Adams")
        discriminator_width: int = size(256, help="units in the discriminator's hidden layers")
        discriminator_depth: int = hparam(
            9,
            Choice((8, 9, 10)),
            within=(2, 100),
            help="number of the discriminator's linear layers",
        )
        discriminator_dropout: float = hparam(
            0.0, within=(0, 0.99), help="dropout in the discriminator's hidden layers"
        )

    hparams: Hparams

    def setup(self) -> None:
        """Add the featurizer of domains, its head and the discriminator."""
        pretrained = isinstance(self.featurizer, FrozenNorms)
        copied = copy.deepcopy if pretrained else newly_initialised
        self.domain_featurizer = copied(self.featurizer)
        self.invariant_head = newly_initialised(self.head)
        self.domain_head = nn.Linear(self.num_features, self.task.num_domains)
        network = nn.ModuleList([self.domain_featurizer, self.invariant_head, self.domain_head])
        self.optimizers["main"].add_param_group({"params": list(network.parameters())})
        self.add_discriminator(self.hparams.lr, weight_decay=0.0)

    def objective(self, batch: Batch) -> Losses:
        """Return the loss of the network."""
        h, parts = self.hparams, self.parts(batch)
        losses = {
            "risk": self.risk(self.head(parts.whole), parts),
            "invariant_risk": self.risk(self.invariant_head(parts.invariant), parts),
            "domain_risk": F.cross_entropy(self.domain_head(parts.of_domain), parts.domains),
            "remix_risk": self.remix_risk(parts),
            "contrast": supervised_contrast(parts.whole, parts.labels)
            + supervised_contrast(parts.invariant, parts.labels),
            "discriminator_loss": self.discriminator_loss(parts),
        }
        weights = (1, 1, h.domain_weight, h.remix_weight, h.contrast_weight, -h.adversarial_weight)
        weighted = [w * loss for w, loss in zip(weights, losses.values(), strict=True)]
        return Losses(torch.stack(weighted).sum(), losses)

    def discriminator_objective(self, batch: Batch) -> Losses:
        """Return mean ℓ(δ(z), d), the loss of the discriminator."""
        with torch.no_grad():
            parts = self.parts(batch)
        loss = self.discriminator_loss(parts)
        return Losses(loss, {"discriminator_loss": loss})

    def parts(self, batch: Batch) -> Parts:
        """Return the features of a batch, with all domains concatenated."""
        x, (domains, size) = batch.x.flatten(0, 1), batch.y.shape
        whole, of_domain = self.featurizer(x), self.domain_featurizer(x)
        domain = torch.arange(domains, device=x.device).repeat_interleave(size)
        return Parts(whole, of_domain, whole - of_domain, batch.y.flatten(), domain)

    def risk(self, outputs: Tensor, parts: Parts) -> Tensor:
        """Return the mean loss of outputs [n, c]."""
        return self.sample_loss.risk(outputs, parts.labels).mean()

    def discriminator_loss(self, parts: Parts) -> Tensor:
        """Return mean ℓ(δ(z), d)."""
        return F.cross_entropy(self.discriminator(parts.invariant), parts.domains)

    def remix_risk(self, parts: Parts) -> Tensor:
        """Return the risk of ψ on each sample's z plus the domain features of its partner."""
        order = torch.randperm(len(parts.labels), generator=self.generator)
        partners = same_class_partners(parts.labels, order.to(parts.labels.device))
        return self.risk(self.head(parts.invariant + parts.of_domain[partners]), parts)
