"""Transfer: features on which no nearby head does much better in one domain than in another."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from shiftproof.core.space import Choice, Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, overwrite, rate, weight


def onto_ball(points: Sequence[Tensor], centre: Sequence[Tensor], radius: float) -> list[Tensor]:
    """Return c + min(1, r / ‖w − c‖) (w − c): the projection of w onto the ball around c.

    `points` are the parts of w and `centre` those of c, in the same shapes; the norm is over all
    parts together, and the radius is positive.

    >>> onto_ball([torch.tensor([3.0]), torch.tensor([4.0])], [torch.zeros(1)] * 2, radius=10)
    [tensor([3.]), tensor([4.])]
    >>> onto_ball([torch.tensor([3.0]), torch.tensor([4.0])], [torch.zeros(1)] * 2, radius=2.5)
    [tensor([1.5000]), tensor([2.])]
    """
    steps = [w - c for w, c in zip(points, centre, strict=True)]
    distance = torch.stack([step.square().sum() for step in steps]).sum().sqrt()
    share = radius / distance.clamp_min(radius)
    return [c + share * step for c, step in zip(centre, steps, strict=True)]


@ALGORITHMS.register("transfer")
class Transfer(ERM):
    """Make features transfer: min L_E + λ max gap(h, φ) over heads h with ‖h − ψ‖ ≤ δ.

    gap(h, φ) = maxᵢ Lᵢ(h∘φ) − minⱼ Lⱼ(h∘φ) is the largest difference between two domains' risks.
    If it is small for all heads near ψ, a head that is good in one domain is good in all.  An
    update has three parts:

    1. φ and ψ take a step on L_E;
    2. φ takes a step on λ gap(h, φ) with the same Adam, for the h of the last update (initially ψ);
    3. h starts at ψ and takes s steps of gradient ascent on λ gap, each followed by a projection
       onto the ball of radius δ around ψ.

    DomainBed draws `gda=True`.  Then its optimiser has only the weights of h, so φ and ψ are not
    trained.  This setting is omitted, as are `beta1` and `weight_decay_d`, which DomainBed does not
    use.

    Paper: Zhang et al. (2021), *Quantifying and Improving Transferability in Domain
    Generalization*.
    """

    family = "representation"
    paper = "Zhang et al. (2021)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ, δ, s, and the step size of the ascent."""

        gap_weight: float = weight(1.0, Float(-2, 1, base=10), help="λ, weight of the gap")
        adversary_radius: float = hparam(
            2.0, Float(0.1, 3.0), within=(1e-9, 1e9), help="δ, maximum distance of h from the head"
        )
        adversary_steps: int = hparam(
            10, Choice((1, 2, 5)), within=(0, 1e6), help="s, ascent steps per update"
        )
        adversary_lr: float = rate(1e-3, Float(-4.5, -2.5, base=10), help="step size of the ascent")

    hparams: Hparams

    def setup(self) -> None:
        """Copy the head: the copy is the adversary."""
        # Without gradients: Adam does not train it, and `ascend` computes its own gradients.
        self.adversary = copy.deepcopy(self.head).requires_grad_(False)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take the three parts of an update."""
        measured = super().update(batch)
        gap = self.gap(dict(self.adversary.named_parameters()), self.features(batch), batch.y)
        # The head is not in this graph, so it has no gradient and Adam skips it.
        self.descend(self.hparams.gap_weight * gap)
        self.ascend(batch)
        return {**measured, "gap": gap.detach()}

    def gap(self, weights: dict[str, Tensor], features: Tensor, labels: Tensor) -> Tensor:
        """Return maxᵢ Lᵢ − minⱼ Lⱼ of the adversary with these weights."""
        outputs = functional_call(self.adversary, weights, (features,))
        risks = self.sample_loss.risk(outputs, labels).mean(dim=1)
        return risks.max() - risks.min()

    def ascend(self, batch: Batch) -> None:
        """Set h to the head, then take steps of gradient ascent on the gap."""
        h = self.hparams
        with torch.no_grad():
            features = self.features(batch)
        centre = [w.detach() for w in self.head.parameters()]
        names = [name for name, _ in self.adversary.named_parameters()]
        point = centre
        for _ in range(h.adversary_steps):
            point = [w.requires_grad_() for w in map(torch.clone, point)]
            gap = self.gap(dict(zip(names, point, strict=True)), features, batch.y)
            slopes = torch.autograd.grad(h.gap_weight * gap, point)
            with torch.no_grad():
                climbed = [w + h.adversary_lr * g for w, g in zip(point, slopes, strict=True)]
                point = onto_ball(climbed, centre, h.adversary_radius)
        overwrite(self.adversary.parameters(), point)
