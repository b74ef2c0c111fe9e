"""CondCAD: CAD within each class."""

from __future__ import annotations

from torch import Tensor

from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.algorithms.cad import CAD
from shiftproof.learners.algorithms.erm import Outputs


@ALGORITHMS.register("condcad")
class CondCAD(CAD):
    """Let samples look like those of other domains with their class: CAD, given the label.

    A sample picks only among the others of its class, so a small penalty means little I(D;Z|Y).
    CAD's I(D;Z) cannot be small if class proportions differ between domains; I(D;Z|Y) can.
    Samples whose class occurs in no other domain of the batch are left out.

    Paper: Ruan et al. (2022), *Optimal Representations for Covariate Shift*.
    """

    classes_only = "it compares samples of one class"

    def penalty(self, outputs: Outputs) -> Tensor:
        """Return the bottleneck of the representations within each class."""
        return self.bottleneck(outputs, outputs.labels)
