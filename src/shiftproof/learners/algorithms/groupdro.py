"""GroupDRO: distributionally robust optimisation over the domains."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftproof.core.space import Float, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses


@ALGORITHMS.register("groupdro")
class GroupDRO(ERM):
    """Minimise the worst domain's risk by weighting domains: Σᵢ qᵢ Lᵢ, qᵢ ← qᵢ exp(η Lᵢ) / Σ.

    The weights q [domains] start equal.  Each step updates them first (exponentiated gradient
    ascent on the simplex) and then treats them as constants.

    Paper: Sagawa et al. (2020), *Distributionally Robust Neural Networks for Group Shifts*.
    """

    family = "robust"
    paper = "Sagawa et al. (2020)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """η."""

        eta: float = hparam(
            1e-2, Float(-3, -1, base=10), within=(0, 1e6), help="η, step size of the weights"
        )

    hparams: Hparams
    q: Tensor

    def setup(self) -> None:
        """Add the equal weights of the domains."""
        self.register_buffer("q", torch.full([self.task.num_domains], 1 / self.task.num_domains))

    def objective(self, batch: Batch) -> Losses:
        """Update the weights, and return the weighted risk."""
        risks = self.outputs(batch).risks
        # In log space, so that large risks do not overflow.
        self.q = torch.softmax(self.q.log() + self.hparams.eta * risks.detach(), dim=0)
        return Losses(self.q @ risks, {"risk": risks.mean(), "worst_risk": risks.max()})
