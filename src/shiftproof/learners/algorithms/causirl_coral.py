"""CausIRL: matching two random mixtures of the domains; here by CORAL."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.models.risk import per_sample_risk
from shiftproof.penalties.coral import coral


class CausIRL(ERM):
    """Match representations of two random mixtures A, B of the domains: L_E + λ d(A, B).

    A representation of the causes alone looks the same under any intervention, hence under any
    mixture of domains.  Each domain's minibatch of b samples is cut at a place drawn uniformly
    from 0 … b − 1; what lies before the cuts is A, the rest B.

    Paper: Chevalley et al. (2022), *Invariant Causal Mechanisms through Distribution Matching*.
    """

    family = "representation"
    paper = "Chevalley et al. (2022)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ."""

        penalty_weight: float = hparam(
            1.0, Float(-1, 1, base=10), within=(0, 1e15), help="λ, strength of the matching"
        )

    hparams: Hparams

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted distance of the two mixtures."""
        representations = self.features(batch)
        risk = per_sample_risk(self.head(representations), batch.y).mean()
        first, second = self.cut(representations.flatten(2))
        # Less than two points have no spread to match.
        matchable = min(len(first), len(second)) > 1
        penalty = self.distance(first, second) if matchable else torch.zeros_like(risk)
        total = risk + self.hparams.penalty_weight * penalty
        return Losses(total, {"risk": risk, "penalty": penalty})

    @abstractmethod
    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        """Return d of two mixtures, [n, k] and [l, k]."""

    def cut(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return all that lies before a random place in each domain, and the rest.

        x [domains, batch, k] → [n, k] and [domains · batch − n, k].
        """
        domains, batch = x.shape[:2]
        places = torch.randint(batch, (domains,), generator=self.generator).tolist()
        before = [group[:place] for group, place in zip(x, places, strict=True)]
        after = [group[place:] for group, place in zip(x, places, strict=True)]
        return torch.cat(before), torch.cat(after)


@ALGORITHMS.register("causirl-coral")
class CausIRLCORAL(CausIRL):
    """Match means and covariances of two random mixtures A, B of domains: L_E + λ CORAL(A, B).

    See `CausIRL`, `coral` and Chevalley et al. (2022).
    """

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        """Return CORAL(A, B)."""
        return coral([first, second])
