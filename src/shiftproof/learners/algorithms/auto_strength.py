"""How strongly to match, found out while training: ``auto`` of λ₁, of λ₂ and of the classes.

A fixed λ means something else for every network and dataset: the penalty scales with the square
of the features, and what it may cost depends on the risk.  So both weights are given as

    λ = κ · L̄ / σ²,

with L̄ a moving average of the risk and σ² one of the mean variance per dimension of what is
matched: κ has no unit, and matching fades as the risk does instead of starving it.

Which κ depends on whether the domains are seen to pull the head in different directions, which is
what concept shift means for training.  With Ḡⁱ a moving average of the mean gradient of domain i by
the head, and P̄ⁱ the same after domains were dealt anew among the samples of each class,

    signal = (1/m) Σᵢ ‖Ḡⁱ − Ḡ‖²,   noise = (1/m) Σᵢ ‖P̄ⁱ − P̄‖²,

both weights are 0 while signal ≤ 3 · noise: where nothing disagrees, training is ERM's to the last
bit.  Above, κ is `REPRESENTATIONS` for λ₂ and `MILD` for λ₁, or `STRONG` if
moreover signal > 10 · noise and the difference is worth minding: more than 0.0015 · tr Var(G).  Two
limits go by the share of the risk in that of a guess, L̄ / H(Y):

- below 0.05, the samples are learnt by heart, and what is left of their gradients says nothing;
- from 0.87 to 0.93, a strong weight fades to 0: matching may cost most of what colour, site or
  season gave, but not all that the classifier knows.

A strong weight keeps the unit of the step at which it began: as gradients become alike they become
small, and a unit that followed them would tighten without end.

Measured with batches of 64 and the sizes of the preset ``lite`` (the last two rows with averages of
a shorter memory, 0.95):

==================================  ==============  ==================
.                                   signal / noise  share of variance
==================================  ==============  ==================
Colored MNIST, 90% and 80%          65              0.0031
Rotated MNIST                       2 to 5          0.0001 to 0.0006
Office-Caltech10, PACS (features)   2 to 9          0.0002 to 0.004
hospitals                           below 1         none
==================================  ==============  ==================
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shiftproof.matching.moving import MovingAverage
from shiftproof.matching.pdm import Order

# κ of gradients where domains disagree a little or a lot, and κ of representations.
MILD, STRONG = 8.0, 5000.0
REPRESENTATIONS = 0.3
# Signal over noise, and the share of the variance, from which they do.
SEEN, PLAIN, COUNTS = 3.0, 10.0, 0.0015
# Shares of a guess's risk: under which samples are known by heart, and where strong matching fades.
BY_HEART, FADES, ENDS = 0.05, 0.87, 0.93
# Label shares differ if they hold this much information on the domain, in nats.
LABEL_SHIFT = 1e-3
# Steps before a shift can be seen: the averages must have forgotten the start.
PATIENCE = 100
TINY = 1e-30


class Unit(nn.Module):
    """L̄ / σ²: the weight that one unit of κ stands for.

    Through a moving average with memory γ, the newest points feel the penalty with another factor
    in each variant (`MovingAverage`): it is divided
    out, so that κ does not depend on γ.  A penalty of order 1 is measured by σ.
    """

    def __init__(self, gamma: float, order: Order, *, corrected: bool) -> None:
        super().__init__()
        self.factor = (1 - gamma) ** (order - 1) if corrected else 1 / (1 - gamma)
        self.order = order
        self.risk = MovingAverage(0.95)
        self.spread = MovingAverage(0.95)

    @torch.no_grad()
    def forward(self, points: Tensor, risk: Tensor) -> Tensor:
        """Take in points [domains, batch, dims] and the risk; return the unit."""
        variance = points.detach().float().flatten(0, 1).var(dim=0, correction=0).mean()
        # Both averages start from 0 alike, so the start cancels.
        spread = self.spread(variance ** (self.order / 2)).clamp(min=TINY)
        unit: Tensor = self.factor * self.risk(risk.detach().float()) / spread
        return unit


class ShareOfGuess(nn.Module):
    """L̄ / H(Y): the risk as a share of that of guessing by the labels' frequencies."""

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


class Disagreement(nn.Module):
    """How far the domains pull the head in different directions: 0, 1 a little, 2 a lot.

    Once seen it stays, since matching makes it go.
    """

    level: Tensor
    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.own = MovingAverage(0.98)
        self.dealt = MovingAverage(0.98)
        self.noise = MovingAverage(0.97)
        self.variance = MovingAverage(0.95)
        self.register_buffer("level", torch.zeros((), dtype=torch.long))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def forward(
        self,
        gradients: Tensor,
        labels: Tensor,
        share: Tensor,
        generator: torch.Generator,
        *,
        warm: bool,
    ) -> Tensor:
        """Take in gradients [domains, batch, P] and labels [domains, batch]; return the level.

        Only what shows after the warm-up counts: before it, the network has learnt too little to
        tell a shift from a difference in difficulty.  ``share`` is that of a guess's risk.
        """
        with torch.autocast(gradients.device.type, enabled=False):
            points = gradients.detach().float()
            flat = points.flatten(0, 1)
            signal = _between(self.own(points.mean(dim=1)))
            noise = self.noise(_between(self.dealt(_dealt_means(labels, generator) @ flat)))
            variance = self.variance(flat.var(dim=0, correction=0).sum())
        self.steps = self.steps + 1
        if warm:
            plain = (signal > PLAIN * noise) & (signal - noise > COUNTS * variance)
            shows = torch.where(plain, 2, (signal > SEEN * noise).long())
            counts = (self.steps > PATIENCE) & (share > BY_HEART)
            self.level = torch.maximum(self.level, shows * counts)
        return self.level


class Strength(nn.Module):
    """Both weights, as the level of disagreement has them."""

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
        gradients: Tensor,
        representations: Tensor,
        labels: Tensor,
        risk: Tensor,
        classes: int,
        generator: torch.Generator,
        *,
        warm: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return λ₁ and λ₂ for gradients [domains, batch, P], representations and labels."""
        share = self.share(risk, labels, classes)
        level = self.disagreement(gradients, labels, share, generator, warm=warm)
        unit = self.gradients(gradients, risk)
        self.strong_unit = torch.where(level < 2, unit, self.strong_unit)
        room = ((ENDS - share) / (ENDS - FADES)).clamp(0, 1)
        strong = (level == 2) * STRONG * self.strong_unit * room
        by_representation = (level > 0) * REPRESENTATIONS
        return (
            (level == 1) * MILD * unit + strong,
            by_representation * self.representations(representations, risk),
        )


class LabelShift(nn.Module):
    """Whether label shares differ between domains, by the information I(Y;D) of all seen so far."""

    counts: Tensor

    def __init__(self, domains: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("counts", torch.zeros(domains, classes))

    @torch.no_grad()
    def forward(self, labels: Tensor) -> Tensor:
        """Take in labels [domains, batch] and return whether I(Y;D) is worth minding."""
        ones = torch.ones_like(labels, dtype=self.counts.dtype)
        self.counts = self.counts.scatter_add(1, labels, ones)
        joint = self.counts / self.counts.sum()
        apart = joint.sum(dim=0) * joint.sum(dim=1, keepdim=True)
        information = torch.special.xlogy(joint, joint / apart.clamp(min=TINY)).sum()
        domains, classes = joint.shape
        by_chance = (domains - 1) * (classes - 1) / (2 * self.counts.sum())
        differs: Tensor = information > LABEL_SHIFT + 3 * by_chance
        return differs


def _between(means: Tensor) -> Tensor:
    """Return the mean squared distance of the domains' means [domains, P] from their own mean."""
    return (means - means.mean(dim=0)).square().sum(dim=1).mean()


def _dealt_means(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Deal domains anew among the samples of each class; return the means' weights [domains, n].

    labels [domains, batch].  Class sizes of each domain stay what they were.
    """
    domains, batch = labels.shape
    flat = labels.flatten().double()
    n = len(flat)
    here = flat.device
    chance = torch.rand(2, n, generator=generator, dtype=torch.float64).to(here)
    # Two random orders, class by class: the one's sample takes the domain of the other's.
    first, second = (flat + 0.5 * chance).argsort(dim=1)
    owner = torch.empty(n, dtype=torch.long, device=here)
    owner[first] = second // batch
    member = owner == torch.arange(domains, device=here).unsqueeze(1)
    return member.float() / batch
