"""CondCAD: CAD within each class."""

from __future__ import annotations

from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.learners.algorithms.cad import CAD


@ALGORITHMS.register("condcad")
class CondCAD(CAD):
    """Let samples look like those of other domains with their class: CAD, given the label.

    A sample picks only among the others of its class, so a small penalty means little I(D;Z|Y).
    CAD's I(D;Z) cannot be small if class proportions differ between domains; I(D;Z|Y) can.
    Samples whose class occurs in no other domain of the batch are left out.

    Paper: Ruan et al. (2022), *Optimal Representations for Covariate Shift*.
    """

    classes_only = "it compares samples of one class"
    within_classes = True
