"""IDM with automatic strength: one run without tuning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shiftproof.core.space import hparam
from shiftproof.learners.algorithms.base import ALGORITHMS
from shiftproof.learners.algorithms.hparams import memory
from shiftproof.learners.algorithms.idm import IDM


@ALGORITHMS.register("idm-auto")
class IDMAuto(IDM):
    """IDM that matches gradients where held-out samples show concept shift, and sets λ₁ itself.

    Without concept shift it is ERM (`auto_strength`).  It equals `idm` with
    `gradient_weight="auto"`, `gradient_ema=0.8` and `match_representations=False`, and has its own
    name for sweeps.
    """

    classes_only = "its test of concept shift compares what classes mean in each domain"

    @dataclass(frozen=True)
    class Hparams(IDM.Hparams):
        """The hyper-parameters of IDM with other defaults; only the optimiser's are searched."""

        gradient_weight: float | Literal["auto"] = hparam(
            "auto", within=(0, 1e15), help="λ₁, strength of gradient matching"
        )
        # `CrossMatch` compares with earlier batches only, so γ₁ need not average out the noise of a
        # batch.  A long memory lags behind the network, which then overshoots.
        gradient_ema: float = memory(0.8, help="γ₁, moving-average decay of gradient matching")
        match_representations: bool = hparam(False, help="whether to match representations at all")
