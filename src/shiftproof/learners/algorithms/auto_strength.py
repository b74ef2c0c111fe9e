"""How strongly to match, decided while training: `auto` for λ₁, λ₂ and `match_within`.

A fixed λ has another meaning for every network and dataset: the penalty scales with the square of
the features, and how much it may cost depends on the risk.  So both weights are

    λ = κ · L̄ / σ²,

with L̄ a moving average of the risk and σ² one of the mean variance per dimension of what is
matched.  κ has no unit, and matching weakens as the risk falls.

κ depends on whether the mean gradients of the domains disagree (`disagreement`).  Both weights are
0 while signal ≤ 3 · noise: without disagreement, training equals ERM to the last bit.  Above, κ is
`REPRESENTATIONS` for λ₂, and for λ₁ it is `MILD`, or `STRONG` if also signal > 10 · noise and
signal − noise > 0.0015 · tr Var(G).  Two limits depend on the share of the risk in that of a guess,
L̄ / H(Y):

- below 0.05 the samples are memorised, and their gradients say nothing;
- from 0.87 to 0.93 a strong weight falls to 0: matching may remove most of what colour, site or
  season contributes, but not all that the classifier knows.

A strong weight keeps the unit L̄ / σ² of the step at which it began.  As gradients become alike they
become small, and a unit that followed them would grow without bound.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shiftproof.learners.algorithms.disagreement import Disagreement
from shiftproof.matching.gradients import LinearGradients
from shiftproof.penalties.moving_average import MovingAverage

# κ of gradients where domains disagree a little or a lot, and κ of representations.
MILD, STRONG = 8.0, 5000.0
REPRESENTATIONS = 0.3
# Shares of a guess's risk between which strong matching fades.
FADES, ENDS = 0.87, 0.93
# Label shares differ if they hold this much information on the domain, in nats.
LABEL_SHIFT = 1e-3
TINY = 1e-30


class Unit(nn.Module):
    """L̄ / σ²: the weight that one unit of κ stands for.

    A moving average with memory γ scales the gradient of the newest points, differently in each
    variant (`MovingMatch`).  The unit divides by that factor, so that κ does not depend on γ.  For
    a penalty of order 1 the unit is L̄ / σ.
    """

    def __init__(self, gamma: float, order: int, *, corrected: bool) -> None:
        super().__init__()
        self.factor = (1 - gamma) ** (order - 1) if corrected else 1 / (1 - gamma)
        self.order = order
        self.risk = MovingAverage(0.95)
        self.spread = MovingAverage(0.95)

    @torch.no_grad()
    def forward(self, variance: Tensor, risk: Tensor) -> Tensor:
        """Take in the mean variance of a dimension and the risk; return the unit."""
        # Both averages start from 0, so the start cancels.
        spread = self.spread(variance ** (self.order / 2)).clamp(min=TINY)
        unit: Tensor = self.factor * self.risk(risk.detach().float()) / spread
        return unit


class ShareOfGuess(nn.Module):
    """L̄ / H(Y): the risk as a share of that of a guess by the labels' frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.risk = MovingAverage(0.95)
        self.frequencies = MovingAverage(0.95)

    @torch.no_grad()
    def forward(self, risk: Tensor, labels: Tensor, classes: int) -> Tensor:
        """Take in the risk and labels [domains, batch]; return the share."""
        counts = torch.zeros(classes, device=labels.device)
        counts.scatter_add_(0, labels.flatten(), torch.ones(labels.numel(), device=labels.device))
        total: Tensor = self.frequencies(counts)
        share = total / total.sum()
        entropy = -torch.special.xlogy(share, share).sum().clamp(max=-TINY)
        # The average of the risk starts from 0 as that of the counts does.
        began = total.sum() / labels.numel()
        of_guess: Tensor = self.risk(risk.detach().float()) / began / entropy
        return of_guess


class Strength(nn.Module):
    """Both weights, given by the level of disagreement."""

    strong_unit: Tensor

    def __init__(self, gradients: Unit, representations: Unit) -> None:
        super().__init__()
        self.share = ShareOfGuess()
        self.disagreement = Disagreement()
        self.gradients = gradients
        self.representations = representations
        self.register_buffer("strong_unit", torch.zeros(()))

    @torch.no_grad()
    def forward(
        self,
        gradients: Tensor | LinearGradients,
        representations: Tensor,
        labels: Tensor,
        risk: Tensor,
        classes: int,
        generator: torch.Generator,
        *,
        warm: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return λ₁ and λ₂ for gradients, representations [domains, batch, k] and labels."""
        share = self.share(risk, labels, classes)
        level, variance = self.disagreement(gradients, labels, share, generator, warm=warm)
        unit = self.gradients(variance, risk)
        self.strong_unit = torch.where(level < 2, unit, self.strong_unit)
        room = ((ENDS - share) / (ENDS - FADES)).clamp(0, 1)
        strong = (level == 2) * STRONG * self.strong_unit * room
        by_gradient = (level == 1) * MILD * unit + strong
        points = representations.float().flatten(0, 1)
        variance = (points - points.mean(dim=0)).square().mean()
        by_representation = (level > 0) * REPRESENTATIONS * self.representations(variance, risk)
        return by_gradient, by_representation


class LabelShift(nn.Module):
    """Whether label shares differ between domains, by the information I(Y;D) of all seen so far."""

    counts: Tensor

    def __init__(self, domains: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(domains, classes))

    @torch.no_grad()
    def forward(self, labels: Tensor) -> Tensor:
        """Take in labels [domains, batch] and return whether I(Y;D) is above chance."""
        ones = torch.ones_like(labels, dtype=self.counts.dtype)
        self.counts = self.counts.scatter_add(1, labels, ones)
        joint = self.counts / self.counts.sum()
        apart = joint.sum(dim=0) * joint.sum(dim=1, keepdim=True)
        information = torch.special.xlogy(joint, joint / apart.clamp(min=TINY)).sum()
        domains, classes = joint.shape
        by_chance = (domains - 1) * (classes - 1) / (2 * self.counts.sum())
        differs: Tensor = information > LABEL_SHIFT + 3 * by_chance
        return differs
