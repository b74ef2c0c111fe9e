"""Do the domains pull the head in different directions?  Then training shows concept shift.

With Ḡⁱ a moving average of the mean gradient of domain i by the head, and P̄ⁱ the same with domain
labels permuted within each class,

    signal = (1/m) Σᵢ ‖Ḡⁱ − Ḡ‖²,   noise = (1/m) Σᵢ ‖P̄ⁱ − P̄‖².

Measured with batches of 64 and the sizes of the preset `lite` (the last two rows with averages of
a shorter memory, 0.95):

| | signal / noise | share of variance |
|---|---|---|
| Colored MNIST, 90% and 80% | 65 | 0.0031 |
| Rotated MNIST | 2 to 5 | 0.0001 to 0.0006 |
| Office-Caltech10, PACS (features) | 2 to 9 | 0.0002 to 0.004 |
| hospitals | below 1 | none |
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shiftproof.core.late_buffers import LateBuffers
from shiftproof.matching.gradients import BLOCK, LinearGradients
from shiftproof.penalties.moving_average import MovingAverage

# Signal over noise, and the share of the variance, from which domains disagree a little or a lot.
SEEN, PLAIN, COUNTS = 3.0, 10.0, 0.0015
# Share of a guess's risk under which samples are memorised.
MEMORISED = 0.05
# Steps before a shift counts: until then the averages depend on the start.
PATIENCE = 100


class MovingContrasts(LateBuffers):
    """A moving average of the differences between the domains' mean gradients.

    All differences between m means are in m − 1 orthogonal contrasts,

        Cⱼ = Σ_{i≤j} Ḡⁱ − j Ḡʲ⁺¹,   Σⱼ ‖Cⱼ‖² / (j (j + 1)) = Σᵢ ‖Ḡⁱ − Ḡ‖²,

    and these are averaged with memory γ.  For gradients e rᵀ the means are products of small
    matrices, computed for some outputs at a time.
    """

    late = ("average",)
    average: Tensor | None

    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, r: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Take in r [m, b, k] and e [m, b, c]; return (1/m) Σᵢ ‖Ḡⁱ − Ḡ‖², and ‖Ḡ‖² of the batch."""
        m, b, k = r.shape
        c = e.shape[2]
        if self.average is None:
            self.average = r.new_zeros(m - 1, c, k)
        average = self.average = self.average.to(r)  # a checkpoint may be on another device
        e = (e / b).transpose(1, 2)
        between = whole = r.new_zeros(())
        step = max(1, BLOCK // (m * k))
        for o in range(0, c, step):
            means = torch.bmm(e[:, o : o + step], r)
            total = means[0]
            for j in range(1, m):
                contrast = average[j - 1, o : o + step]
                contrast.lerp_(total.sub(means[j], alpha=j), 1 - self.gamma)
                between = between + contrast.square().sum() / (j * (j + 1))
                total += means[j]
            whole = whole + total.square().sum()
        return between / m, whole / m**2


class Disagreement(nn.Module):
    """How much the domains disagree on the head's gradient: 0 not, 1 a little, 2 a lot.

    The level never falls, since matching removes the disagreement that it answers.
    """

    level: Tensor
    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.own = MovingContrasts(0.98)
        self.permuted = MovingContrasts(0.98)
        self.noise = MovingAverage(0.97)
        self.variance = MovingAverage(0.95)
        self.register_buffer("level", torch.zeros((), dtype=torch.long))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def forward(
        self,
        gradients: Tensor | LinearGradients,
        labels: Tensor,
        share: Tensor,
        generator: torch.Generator,
        *,
        warm: bool,
    ) -> tuple[Tensor, Tensor]:
        """Take in gradients of P dimensions and labels [domains, batch].

        Return the level, and the mean variance of a dimension in this batch.  Only steps after the
        warm-up count: before it, the network has learnt too little to distinguish a shift from a
        difference in difficulty.  `share` is the share of a guess's risk.
        """
        with torch.autocast(labels.device.type, enabled=False):
            r, e = _factors(gradients, labels)
            signal, mean = self.own(r, e)
            places = permuted_within_classes(labels, generator)
            permuted = (part.flatten(0, 1)[places] for part in (r, e))
            noise = self.noise(self.permuted(*permuted)[0])
            squared = (r.square().sum(dim=2) * e.square().sum(dim=2)).mean()
            total = (squared - mean).clamp(min=0)  # E‖G‖² − ‖E G‖²
            variance = self.variance(total)
        self.steps = self.steps + 1
        if warm:
            plain = (signal > PLAIN * noise) & (signal - noise > COUNTS * variance)
            shows = torch.where(plain, 2, (signal > SEEN * noise).long())
            counts = (self.steps > PATIENCE) & (share > MEMORISED)
            self.level = torch.maximum(self.level, shows * counts)
        return self.level, total / (r.shape[2] * e.shape[2])


def permuted_within_classes(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Permute domain labels within each class; return each domain's samples, [domains, batch].

    labels [domains, batch] → positions among all samples.  Every domain keeps its class sizes.
    """
    flat = labels.flatten().double()
    chance = torch.rand(2, len(flat), generator=generator, dtype=torch.float64).to(flat.device)
    # Two random orders, class by class: each sample of the first takes a domain of the second.
    first, second = (flat + 0.5 * chance).argsort(dim=1)
    domain = second // labels.shape[1]
    places: Tensor = first[domain.argsort(stable=True)]
    return places.view(labels.shape)


def _factors(gradients: Tensor | LinearGradients, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return r [domains, batch, k] and e [domains, batch, c] of which G = e rᵀ."""
    if isinstance(gradients, Tensor):
        points = gradients.detach().float()
        return points, torch.ones_like(points[..., :1])
    r, e = gradients.features.detach().float(), gradients.residual.detach().float()
    return r.view(*labels.shape, -1), e.view(*labels.shape, -1)
