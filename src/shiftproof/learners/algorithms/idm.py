"""IDM: inter-domain distribution matching (Algorithm 2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import REGRESSION, Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, memory, steps, weight
from shiftproof.matching.head_gradients import gradients_of
from shiftproof.matching.term import MatchingTerm, MatchInputs, with_penalties


@ALGORITHMS.register("idm")
class IDM(ERM):
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

    The authors' code has neither γ₂ nor t₂, so both default to 0 (off).  One setting is not in the
    paper: `match_within="class"` matches representations class by class, for domains with different
    class proportions (`matching.pdm`).

    Paper: Dong et al. (2024), *How Does Distribution Matching Help Domain Generalization: An
    Information-theoretic Analysis*.
    """

    family = "gradient"
    paper = "Dong et al. (2024)"
    weighs_samples = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ₁, λ₂, t₁, t₂, γ₁, γ₂ and the switches."""

        match_within: str = hparam(
            "all",
            choices=("all", "class"),
            help="match representations over all samples or within each class",
        )
        gradient_weight: float = weight(
            1e3, Float(1, 5, base=10), help="λ₁, strength of gradient matching"
        )
        representation_weight: float = weight(
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

    def setup(self) -> None:
        """Add the terms of the loss."""
        h = self.hparams
        by_class = h.match_within == "class"
        if by_class and self.task.kind == REGRESSION:
            raise InvalidValue(
                '`match_within="class"` compares classes, but the labels are numbers'
            )
        self.terms: dict[str, MatchingTerm] = {}
        if h.match_gradients:
            self.terms["gradient"] = MatchingTerm(
                "gradients", h.gradient_weight, h.gradient_warmup, h.gradient_ema,
                order=h.order, trim=h.trim, variant=h.variant,
            )  # fmt: skip
            if h.variant == "authors":  # the authors' code has no t₂
                self.optimizer_restarts = frozenset({self.terms["gradient"].start})
        if h.match_representations:
            self.terms["representation"] = MatchingTerm(
                "representations", h.representation_weight, h.representation_warmup,
                h.representation_ema, order=h.order, variant=h.variant, by_class=by_class,
            )  # fmt: skip
        self.registered = nn.ModuleDict(self.terms)  # so that their moving averages are saved

    def objective(self, batch: Batch) -> Losses:
        """Return L_IDM = L_E + λ₁ L_G + λ₂ L_R.

        The comments refer to the lines of Algorithm 2.  Line 4, sampling, is in the training loop.
        Lines 10 to 12 and 14 to 16 are in `with_penalties`.  Line 18, the step on this loss, is in
        `Algorithm.update`.
        """
        representations, logits, labels, losses, _ = self.outputs(batch)  # lines 5, 6
        inputs = MatchInputs(
            representations.flatten(2),
            labels,
            self.task.num_classes,
            partial(gradients_of, self.head, representations, labels, logits, self.sample_loss),
        )  # line 7
        risk = losses.mean()  # line 9
        total, penalties = with_penalties(risk, self.terms, inputs, self.updates)
        return Losses(total, {"risk": risk, **penalties})
