"""IDM for many networks that are trained together; each matches its training domains.

With Rⁱ and Gⁱ the representations and the per-sample head gradients of domain i
(`learners.algorithms.idm`), a network's loss is its risk plus

    λ₁ PDM(G¹ … Gᵐ) + λ₂ PDM(R¹ … Rᵐ),

where λ₁ and λ₂ make each penalty as large as the risk in the first batch, whatever the scale of
either.  Held-out domains decide whether matching helps.  PDM treats every dimension alike, so all
networks are matched in one call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from shiftproof.matching.pdm import pdm
from shiftproof.models.risk import CROSS_ENTROPY_LOSS, Loss


@dataclass
class _Group:
    """Problems with the same number k of domains: the problems [p] and their domains [p, k].

    `scales` [p] are the square roots of λ for gradients and for representations.
    """

    problems: Tensor
    domains: Tensor
    scales: dict[str, Tensor] = field(default_factory=dict)


class MatchedProblems:
    """The penalties of `seeds` networks for each of several problems.

    `used` [problems, domains] marks the training domains of each problem; a problem with a single
    domain has no penalty.
    """

    def __init__(self, used: Tensor, seeds: int, loss: Loss = CROSS_ENTROPY_LOSS) -> None:
        self.loss = loss
        self.seeds, self.total = seeds, used.shape[1]
        counts = used.sum(dim=1)
        self.groups = []
        for count in sorted(set(counts.tolist()) - {0, 1}):
            problems = torch.nonzero(counts == count)[:, 0]
            domains = torch.nonzero(used[problems])[:, 1].view(len(problems), count)
            self.groups.append(_Group(problems, domains))

    def __call__(self, hidden: Tensor, logits: Tensor, labels: Tensor, risks: Tensor) -> Tensor:
        """Return the sum of all networks' penalties on a batch with the domains in order.

        hidden is [networks, domains · b, k], logits [networks, domains · b, c], labels
        [domains · b], or [domains · b, c] for regression, and risks [problems] the mean risk of
        each problem.
        """
        labels = labels.expand(len(logits), *labels.shape)
        residual = self.loss.residual(logits, labels)
        if residual.shape[-1] == 2 and not labels.is_floating_point():
            residual = residual[..., 1:]  # the first class has the negative residual
        inputs = torch.cat([hidden, torch.ones_like(hidden[..., :1])], dim=-1)
        gradients = (residual.unsqueeze(-1) * inputs.unsqueeze(-2)).flatten(-2)
        penalty = hidden.new_zeros(())
        for group in self.groups:
            for name, points in (("gradients", gradients), ("representations", hidden)):
                penalty = penalty + self._matched(group, name, points, risks.detach())
        return penalty

    def _matched(self, group: _Group, name: str, points: Tensor, risks: Tensor) -> Tensor:
        split = points.view(
            -1, self.seeds, self.total, points.shape[1] // self.total, points.shape[2]
        )
        own = split.transpose(1, 2)[group.problems[:, None], group.domains]  # [p, k, seeds, b, d]
        own = own.permute(1, 3, 0, 2, 4)
        if name not in group.scales:
            first = torch.stack([pdm(own[:, :, place].flatten(2)) for place in range(own.shape[2])])
            share = risks[group.problems] / first.detach()
            group.scales[name] = torch.where(first > 0, share, torch.zeros_like(share)).sqrt()
        scaled = own * group.scales[name][:, None, None]
        # PDM averages over dimensions, here those of all networks of the group.
        penalty: Tensor = pdm(scaled.flatten(2)) * own.shape[2] * self.seeds
        return penalty
