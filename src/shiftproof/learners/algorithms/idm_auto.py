"""IDM with automatic strengths: one run without tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shiftproof.core.space import hparam
from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.algorithms.idm import IDM
from shiftproof.learners.algorithms.idm_extensions import WITHIN, WITHIN_HELP


@ALGORITHMS.register("idm-auto")
class IDMAuto(IDM):
    """IDM with λ₁, λ₂ and the choice between all samples and classes set while training.

    The same as `idm` with `gradient_weight="auto"`, `representation_weight="auto"` and
    `match_within="auto"` (`auto_strength`), under its own name for sweeps.
    """

    @dataclass(frozen=True)
    class Hparams(IDM.Hparams):
        """Those of IDM with other defaults; only those of the optimiser are searched."""

        gradient_weight: float | Literal["auto"] = hparam(
            "auto", within=(0, 1e15), help="λ₁, strength of gradient matching"
        )
        representation_weight: float | Literal["auto"] = hparam(
            "auto", within=(0, 1e15), help="λ₂, of representation matching"
        )
        match_within: str = hparam("auto", choices=WITHIN, help=WITHIN_HELP)
