"""IDM: inter-domain distribution matching (Algorithm 2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import nn

from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import REGRESSION, Batch
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.hparams import memory, steps, weight
from shiftproof.learners.algorithms.idm_extensions import (
    ExtensionHparams,
    Extensions,
    require_no_classes,
)
from shiftproof.learners.algorithms.strength_looks import StrengthLooks
from shiftproof.matching.head_gradients import gradients_of
from shiftproof.matching.term import MatchingTerm, MatchInputs, gradients, representations


@ALGORITHMS.register("idm")
class IDM(StrengthLooks):
    """Match per-sample gradients and representations across domains: L_E + λ₁ L_G + λ₂ L_R.

    With Rⁱ [b, k] the representations φ(x) of domain i and Gⁱ [b, P] its per-sample gradients
    ∇_ψ ℓ(ψ(r), y) with respect to the P parameters of the head ψ,

        L_G = PDM(G¹ … Gᵐ; γ₁) from step t₁ on,   L_R = PDM(R¹ … Rᵐ; γ₂) from step t₂ on

    (`matching.pdm`).  Matching gradients reduces concept shift I(Y;D|X); matching representations
    reduces covariate shift I(X;D).  Together they bound the gap between training and test risk
    with high probability (Section 4).

    The authors' code differs from the paper's pseudo-code; `variant` selects one of them:

    | | `authors` (default) | `paper` |
    |---|---|---|
    | moving average | divided by 1 − γ | not divided |
    | averages start | with the first step | at the end of the warm-up |
    | first matched step (from 1) | t + 1 | t |
    | Adam at the end of t₁ | restarts | continues |

    The authors' code has neither γ₂ nor t₂, so both default to 0 (off).  Extensions beyond the
    paper are in `idm_extensions`.

    Paper: Dong et al. (2024), *How Does Distribution Matching Help Domain Generalization: An
    Information-theoretic Analysis*.
    """

    family = "gradient"
    paper = "Dong et al. (2024)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ExtensionHparams):
        """λ₁, λ₂, t₁, t₂, γ₁, γ₂ and the switches."""

        gradient_weight: float | Literal["auto"] = weight(
            1e3, Float(1, 5, base=10), help="λ₁, strength of gradient matching"
        )
        representation_weight: float | Literal["auto"] = weight(
            1.0, Float(-1, 1, base=10), help="λ₂, strength of representation matching"
        )
        gradient_warmup: int = steps(
            1500, Int(0, 5000), help="t₁, steps before gradients are matched"
        )
        representation_warmup: int = steps(0, help="t₂, steps before representations are matched")
        gradient_ema: float = memory(
            0.95, Float(0.9, 0.99), help="γ₁, moving-average decay of gradient matching"
        )
        representation_ema: float = memory(
            0.0, help="γ₂, moving-average decay of representation matching"
        )
        match_gradients: bool = hparam(True, help="whether to match gradients at all")
        match_representations: bool = hparam(True, help="whether to match representations at all")
        order: int = hparam(2, choices=(1, 2), help="2 for the KL form of PDM, 1 for Wasserstein")
        trim: int = hparam(
            0, within=(0, 1e9), help="extreme gradients to leave out at each end, per dimension"
        )
        variant: str = hparam(
            "authors", choices=("authors", "paper"), help="the authors' code or the pseudo-code"
        )

    hparams: Hparams

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        h = self.hparams
        if self.task.kind == REGRESSION:
            require_no_classes(h)
        self.terms: dict[str, MatchingTerm] = {}
        if h.match_gradients:
            self.terms["gradient"] = MatchingTerm(
                gradients, h.gradient_weight, h.gradient_warmup, h.gradient_ema,
                order=h.order, trim=h.trim, variant=h.variant,
            )  # fmt: skip
        if h.match_representations:
            self.terms["representation"] = MatchingTerm(
                representations, h.representation_weight, h.representation_warmup,
                h.representation_ema, order=h.order, variant=h.variant,
            )  # fmt: skip
        self.extensions = Extensions(h)
        self.extensions.change(self.terms)
        self.registered = nn.ModuleDict(self.terms)  # so that their moving averages are saved
        if h.variant == "authors":
            # An automatic weight restarts Adam when it begins; the authors' code has no t₂.
            self.optimizer_restarts = frozenset(
                term.start
                for name, term in self.terms.items()
                if name != "representation" and term.weight != "auto"
            )
        if self.extensions.strength is not None:
            self.late_starts = frozenset({h.gradient_warmup})

    def objective(self, batch: Batch) -> Losses:
        """Return L_IDM = L_E + λ₁ L_G + λ₂ L_R.

        The comments refer to the lines of Algorithm 2.  Line 4, sampling, is in the training loop.
        Line 18, the step on this loss, is in `Algorithm.update`.
        """
        representations = self.features(batch)  # line 5
        logits = self.head(representations)
        risks = self.sample_loss.risk(logits, batch.y)  # line 6
        inputs = MatchInputs(
            representations.flatten(2),
            batch.y,
            self.task.num_classes,
            partial(  # line 7
                gradients_of, self.head, representations, batch.y, logits, self.sample_loss
            ),
        )
        total = batch.weighted(risks).mean()  # line 9
        parts = {"risk": total}
        for name, term in self.terms.items():  # gradients, then representations
            if term.tracks(self.updates) and not self.extensions.waits(term):
                penalty = parts[f"{name}_penalty"] = term(inputs, self.updates)  # lines 11, 15
                if term.acts(self.updates):  # lines 10, 14
                    weight = self.extensions.weight(name, term, parts["risk"], inputs)
                    total = total + weight * penalty  # lines 12, 16
        if (strength := self.extensions.strength) is not None:
            parts["strength"] = total.new_tensor(strength.kappa)
        return Losses(total, parts)
