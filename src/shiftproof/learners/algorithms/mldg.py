"""MLDG: meta-learning, where a step on one domain should also improve another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor, nn
from torch.func import functional_call

from shiftproof.core.space import Choice, Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, weight


@ALGORITHMS.register("mldg")
class MLDG(ERM):
    """Make a step on one domain lower the risk of another: (1/m) Σ Fᵢ(θ) + β Fⱼ(θ − α ∇Fᵢ(θ)).

    Fᵢ is the risk of domain i, α the learning rate.  Each step splits the m domains at random into
    n meta-test domains and m − n meta-train domains; each meta-train domain i is paired with a
    meta-test domain j.

    The gradient is exact: ∇Fᵢ + β (I − α ∇²Fᵢ) ∇Fⱼ(θ − α ∇Fᵢ).  The published code drops the
    Hessian ∇²Fᵢ, takes the inner step with a new Adam, and makes no update if n ≥ m; here at most
    m − 1 domains are meta-test.

    Paper: Li et al. (2018), *Learning to Generalize: Meta-Learning for Domain Generalization*.
    """

    family = "meta"
    paper = "Li et al. (2018)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """β and n."""

        beta: float = weight(1.0, Float(-1, 1, base=10), help="β, weight of the meta-test risk")
        meta_test_domains: int = hparam(
            2, Choice((1, 2)), within=(1, 1e9), help="n, at most the number of domains − 1"
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return (1/m) Σ Fᵢ(θ) + β Fⱼ(θ − α ∇Fᵢ(θ)) over this step's pairs (i, j)."""
        network = nn.Sequential(self.featurizer, self.head)
        weights = {name: w for name, w in network.named_parameters() if w.requires_grad}

        def risk(weights: Mapping[str, Tensor], domain: int) -> Tensor:
            part = batch.of_domain(domain)
            logits = functional_call(network, dict(weights), (part.x,))
            return part.weighted(self.sample_loss.risk(logits, part.y)).mean()

        before, after = [], []
        for train, test in self.pairs(len(batch.y)):
            before.append(risk(weights, train))
            after.append(risk(self.descended(weights, before[-1]), test))
        meta_train = torch.stack(before).sum() / len(batch.y)
        meta_test = torch.stack(after).sum() / len(batch.y)
        total = meta_train + self.hparams.beta * meta_test
        return Losses(total, {"meta_train_risk": meta_train, "meta_test_risk": meta_test})

    def descended(self, weights: Mapping[str, Tensor], risk: Tensor) -> dict[str, Tensor]:
        """Return θ − α ∇F(θ), differentiable with respect to θ."""
        gradients = torch.autograd.grad(
            risk, list(weights.values()), create_graph=True, materialize_grads=True
        )
        return {
            name: weight - self.hparams.lr * gradient
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
        }

    def pairs(self, num_domains: int) -> Iterator[tuple[int, int]]:
        """Split the domains and yield pairs of a meta-train and a meta-test domain.

        A single domain is its own meta-test domain; DomainBed does not train on a single domain.
        """
        if num_domains == 1:
            return iter([(0, 0)])
        shuffled = torch.randperm(num_domains, generator=self.generator).tolist()
        held_out = min(self.hparams.meta_test_domains, num_domains - 1)
        return zip(shuffled[held_out:], cycle(shuffled[:held_out]), strict=False)
