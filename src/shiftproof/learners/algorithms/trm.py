"""TRM: transfer risk minimisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, rate, size, steps, weight
from shiftproof.learners.algorithms.base import overwrite
from shiftproof.learners.algorithms.sagnet import newly_initialised

# If an element of the sum is larger than this, the series is taken to diverge.
LARGEST = 10.0


def neumann_inverse(product: Callable[[Tensor], Tensor], v: Tensor, terms: int) -> Tensor:
    """Return Σₖ (I − H)ᵏ v for k = 0 … `terms`, the truncated Neumann series of H⁻¹ v.

    The series converges if all eigenvalues of H are in (0, 2).  If an element of the sum exceeds
    ±10, it is taken to diverge and stops there (as in the code of Xu and Jaakkola, 2021).

    v [m, p] are m vectors, each with its own Hessian, and `product` maps such vectors to H v.

    >>> neumann_inverse(lambda v: 0.5 * v, torch.ones(1, 1), terms=1)
    tensor([[1.5000]])
    >>> neumann_inverse(lambda v: 0.5 * v, torch.ones(1, 1), terms=30)
    tensor([[2.]])
    """
    total = term = v
    for _ in range(terms):
        converging = total.abs().amax(dim=1, keepdim=True) <= LARGEST
        term = term - product(term)
        total = torch.where(converging, total + term, total)
    return total


@ALGORITHMS.register("trm")
class TRM(ERM):
    """Let the best head of one domain serve the others: L_E + (1/m) Σᵢ Σⱼ αᵢⱼ Lⱼ(wᵢ∘φ), j ≠ i.

    wᵢ is a head trained on domain i alone.  It takes `predictor_steps` steps on its risk in each
    update, and continues from there in the next.  Since wᵢ depends on φ, the gradient of the second
    part with respect to φ is ∂Tᵢ/∂φ − hᵢ · ∂gᵢ/∂φ, where Tᵢ = Σⱼ αᵢⱼ Lⱼ(wᵢ∘φ) is the risk on other
    domains, gᵢ = ∂Lᵢ/∂wᵢ the gradient on its own domain, Hᵢ = ∂²Lᵢ/∂wᵢ² and hᵢ = Hᵢ⁻¹ ∂Tᵢ/∂wᵢ,
    which is held constant.  The second term matches gradients and has weight λ.  hᵢ is computed by
    a Neumann series (`learners.algorithms.trm`).

    The weights α shift to the domains where a head does worst: αᵢⱼ ← αᵢⱼ exp(η αᵢⱼ Lⱼ) / Σ.  Until
    step `anneal_steps` the loss is L_E alone.

    DomainBed computes gᵢ and Hᵢ without the bias of wᵢ, and counts the second term of the series
    twice and the first not at all.  It changes α in place before the gradient of Tᵢ is computed,
    which then uses the updated, unnormalised weights.  Here the bias is included, each term counts
    once, and α is the same in Tᵢ and its gradient.

    Paper: Xu and Jaakkola (2021), *Learning Representations that Support Robust Transfer of
    Predictors*.
    """

    family = "gradient"
    paper = "Xu and Jaakkola (2021)"
    starts_at = ("anneal_steps",)
    classes_only = "its heads take steps of fixed size, which need a loss of bounded slope"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ, η, when they take effect, and the training of the domains' heads."""

        matching_weight: float = weight(
            1e-4, Float(-5, 0, base=10), help="λ, weight of the matched gradients"
        )
        anneal_steps: int = steps(
            200, Int(0, 4, base=10), help="first steps, which minimise the mean risk"
        )
        eta: float = hparam(
            1e-2, Float(-3, -1, base=10), within=(0, 1e6), help="η, step size of the weights α"
        )
        predictor_steps: int = size(30, help="steps of each domain's head per update")
        predictor_lr: float = rate(0.1, help="step size of these heads")
        neumann_terms: int = hparam(
            10, within=(0, 1e6), help="terms of the inverse Hessian after the first"
        )

    hparams: Hparams
    alpha: Tensor

    def setup(self) -> None:
        """Add a head for each domain and the weights α."""
        domains = self.task.num_domains
        # Without gradients: no optimiser trains them, and each step computes its own gradients.
        self.predictors = nn.ModuleList(newly_initialised(self.head) for _ in range(domains))
        self.predictors.requires_grad_(False)
        others = 1 - torch.eye(domains)
        self.register_buffer("alpha", others / max(domains - 1, 1))

    def objective(self, batch: Batch) -> Losses:
        """Return L_E, plus the transfer risk once it acts; a single domain has none."""
        outputs = self.outputs(batch)
        risk = outputs.risks.mean()
        if self.updates < self.hparams.anneal_steps or len(batch.y) == 1:
            return Losses(risk, {"risk": risk})
        self.fit_predictors(outputs.representations.detach(), batch.y)
        elsewhere, matching = self.transfer_risk(outputs.representations, batch.y)
        total = risk + elsewhere - self.hparams.matching_weight * matching
        return Losses(total, {"risk": risk, "transfer_risk": elsewhere, "matching": matching})

    def fit_predictors(self, features: Tensor, labels: Tensor) -> None:
        """Train each domain's head on its own risk for `predictor_steps` steps."""
        weights = self.predictor_weights()
        for _ in range(self.hparams.predictor_steps):
            at_home_risk = self.predictor_risks(weights, features, labels, at_home=True).sum()
            slopes = torch.autograd.grad(at_home_risk, weights)
            weights = [
                (w.detach() - self.hparams.predictor_lr * slope).requires_grad_()
                for w, slope in zip(weights, slopes, strict=True)
            ]
        overwrite(self.predictors.parameters(), weights)

    def transfer_risk(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return (1/m) Σᵢ Tᵢ and (1/m) Σᵢ hᵢ · gᵢ, and update α."""
        domains = len(labels)
        weights = self.predictor_weights()
        risks = self.predictor_risks(weights, features, labels)
        at_home_risk, elsewhere = risks.diagonal().sum(), (self.alpha * risks).sum()
        home = _rows(torch.autograd.grad(at_home_risk, weights, create_graph=True), domains)

        def hessian_product(v: Tensor) -> Tensor:
            # The Hessian of the sum has one block per head, so one product computes all of them.
            return _rows(torch.autograd.grad(home, weights, v, retain_graph=True), domains)

        away = _rows(torch.autograd.grad(elsewhere, weights, retain_graph=True), domains)
        h = neumann_inverse(hessian_product, away, self.hparams.neumann_terms)
        with torch.no_grad():
            grown = self.alpha.log() + self.hparams.eta * self.alpha * risks
            self.alpha = torch.softmax(grown, dim=1)
        return elsewhere / domains, (h * home).sum() / domains

    def predictor_weights(self) -> list[Tensor]:
        """Return the weights of all domains' heads, head by head, as new leaf tensors."""
        return [w.detach().clone().requires_grad_() for w in self.predictors.parameters()]

    def predictor_risks(
        self, weights: list[Tensor], features: Tensor, labels: Tensor, *, at_home: bool = False
    ) -> Tensor:
        """Return Lⱼ(wᵢ∘φ) [i, j] of features [domains, batch, k], or Lᵢ(wᵢ∘φ) [i] `at_home`."""
        names = [name for name, _ in self.head.named_parameters()]
        risks = []
        for i, head in enumerate(self.predictors):
            of_head = weights[i * len(names) : (i + 1) * len(names)]
            x, y = (features[i], labels[i]) if at_home else (features, labels)
            outputs = functional_call(head, dict(zip(names, of_head, strict=True)), (x,))
            risks.append(self.sample_loss.risk(outputs, y).mean(dim=-1))
        return torch.stack(risks)


def _rows(parts: tuple[Tensor, ...], domains: int) -> Tensor:
    """Return the parts of each domain's head as one row, [domains, p]."""
    return torch.cat([part.flatten() for part in parts]).view(domains, -1)
