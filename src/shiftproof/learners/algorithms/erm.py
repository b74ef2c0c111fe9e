"""ERM: empirical risk minimisation, the baseline of everything."""

from __future__ import annotations

from typing import ClassVar

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Algorithm, Family, Losses
from shiftproof.models.risk import per_sample_risk


@ALGORITHMS.register("erm")
class ERM(Algorithm):
    """Minimise the mean risk over all domains: L_E = (1/m) Σᵢ (1/b) Σⱼ ℓ(ψ(φ(xⁱⱼ)), yⁱⱼ).

    Paper: Vapnik (1998), *Statistical Learning Theory*.
    """

    family: ClassVar[Family] = "baseline"
    paper = "Vapnik (1998)"

    def objective(self, batch: Batch) -> Losses:
        """Return L_E."""
        risk = per_sample_risk(self.head(self.features(batch)), batch.y).mean()
        return Losses(risk, {})
