"""IDM: inter-domain distribution matching (Algorithm 2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import Float, Int, hparam
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.auto_strength import LabelShift, Strength, Unit
from shiftproof.learners.algorithms.base import ALGORITHMS, Losses
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.matching.by_class import pdm_by_class
from shiftproof.matching.gradients import head_gradients, some_linear_head_gradients
from shiftproof.matching.pdm import MovingMatch, Order, matching_information
from shiftproof.matching.sampled_dimensions import SampledDimensions
from shiftproof.models.risk import logit_residual, per_sample_risk


@ALGORITHMS.register("idm")
class IDM(ERM):
    """Match per-sample gradients and representations across domains: L_E + λ₁ L_G + λ₂ L_R.

    With Rⁱ [b, k] the representations φ(x) of domain i and Gⁱ [b, P] the gradients
    ∇_ψ ℓ(ψ(r), y) of its samples by the P parameters of the head ψ,

        L_G = PDM(G¹ … Gᵐ; γ₁) from step t₁ on,   L_R = PDM(R¹ … Rᵐ; γ₂) from step t₂ on

    (`matching.pdm`).  Matching gradients answers concept shift I(Y;D|X), and
    matching representations covariate shift I(X;D); together they bound the gap between training
    and test risk with high probability (Section 4).

    ``variant`` names what the paper's pseudo-code and the authors' code do differently:

    ===========================  =====================  ==========================
    .                            ``authors`` (default)  ``paper``
    ===========================  =====================  ==========================
    moving average               divided by 1 − γ       as it is
    averages start               with the first step    with the warm-up's end
    first matched step (from 1)  t + 1                  t
    Adam at the end of t₁        starts afresh          goes on
    ===========================  =====================  ==========================

    The authors' code has neither γ₂ nor t₂, hence their default 0, which switches each off.

    λ₁ = ``auto`` and λ₂ = ``auto`` set themselves (`auto_strength`).  With
    ``match_within`` = ``class``, representations are matched class by class, which does no harm
    where domains hold the classes in different shares (`matching.by_class`);
    ``auto`` does so where the shares differ.

    ``track_information`` records how much a gradient and a representation tell of their domain
    (`matching_information`): the two terms of the paper's bound, to
    be watched beside the gap between training and test risk
    (`training.bound_terms`).

    ``gradient_dimensions`` matches a random sample of the gradient's dimensions, whose penalty has
    the exact one's expectation (`matching.sampled_dimensions`): for heads so large
    that even the fast way is too slow.

    A third term λ₃ PDM(ℓ¹ … ℓᵐ; γ₃) from step t₃ on matches the per-sample risks ℓⁱ [b], which the
    paper leaves to future work; λ₃ = 0, the default, leaves it out.

    Paper: Dong et al. (2024), *How Does Distribution Matching Help Domain Generalization: An
    Information-theoretic Analysis*.
    """

    family = "gradient"
    paper = "Dong et al. (2024)"

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ₁, λ₂, t₁, t₂, γ₁, γ₂ and the switches."""

        gradient_weight: float | Literal["auto"] = hparam(
            1e3, Float(1, 5, base=10), within=(0, 1e15), help="λ₁, strength of gradient matching"
        )
        representation_weight: float | Literal["auto"] = hparam(
            1.0, Float(-1, 1, base=10), within=(0, 1e15), help="λ₂, of representation matching"
        )
        gradient_warmup: int = hparam(
            1500,
            Int(0, 5000),
            within=(0, 1e12),
            unit="steps",
            help="t₁, steps before gradients are matched",
        )
        representation_warmup: int = hparam(
            0, within=(0, 1e12), unit="steps", help="t₂, steps before representations are matched"
        )
        gradient_ema: float = hparam(
            0.95, Float(0.9, 0.99), within=(0, 0.999999), help="γ₁, memory of gradient matching"
        )
        representation_ema: float = hparam(
            0.0, within=(0, 0.999999), help="γ₂, memory of representation matching"
        )
        risk_weight: float = hparam(
            0.0, within=(0, 1e15), help="λ₃, of risk matching; 0 leaves it out"
        )
        risk_warmup: int = hparam(
            1500, within=(0, 1e12), unit="steps", help="t₃, steps before risks are matched"
        )
        risk_ema: float = hparam(0.95, within=(0, 0.999999), help="γ₃, memory of risk matching")
        gradient_dimensions: int = hparam(
            0,
            within=(0, 1e12),
            help="match an unbiased sample of so many gradient dimensions; 0 for all, exactly",
        )
        match_gradients: bool = hparam(True, help="whether to match gradients at all")
        match_representations: bool = hparam(True, help="whether to match representations at all")
        match_within: str = hparam(
            "all",
            choices=("all", "class", "auto"),
            help="match representations of all, or by class",
        )
        order: int = hparam(2, choices=(1, 2), help="2 for the KL form of PDM, 1 for Wasserstein")
        trim: int = hparam(
            0, within=(0, 1e9), help="extreme gradients left out at each end, per dimension"
        )
        track_information: bool = hparam(
            False, help="record what gradients and representations tell of the domain"
        )
        variant: str = hparam(
            "authors", choices=("authors", "paper"), help="the authors' code or the pseudo-code"
        )

    hparams: Hparams

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        h = self.hparams
        order: Order = 1 if h.order == 1 else 2
        corrected = h.variant == "authors"
        if h.variant == "authors":
            # A weight that sets itself does not jump at the warm-up's end.
            jumps = h.match_gradients and h.gradient_weight != "auto"
            switches = [(h.gradient_warmup, jumps), (h.risk_warmup, h.risk_weight > 0)]
            self.optimizer_restarts = frozenset(step for step, acts in switches if acts)
        self.sampled = None
        if h.gradient_dimensions:
            self.sampled = SampledDimensions(h.gradient_dimensions, redrawn=h.gradient_ema == 0)
        self.gradient_match = MovingMatch(h.gradient_ema, order, h.trim, corrected=corrected)
        self.representation_match = MovingMatch(h.representation_ema, order, corrected=corrected)
        self.risk_match = MovingMatch(h.risk_ema, order, corrected=corrected)
        if h.match_within != "all" and h.representation_ema > 0:
            raise InvalidValue(
                f"match_within={h.match_within} has no moving average, since every batch holds"
                " other shares of the classes: set representation_ema=0"
            )
        # Built only where they act: an unused one would change the state of older runs.
        if "auto" in (h.gradient_weight, h.representation_weight):
            self.late_starts = frozenset([h.gradient_warmup])
            self.strength = Strength(
                Unit(h.gradient_ema, order, corrected=corrected),
                Unit(h.representation_ema, order, corrected=corrected),
            )
        if h.match_within == "auto":
            self.label_shift = LabelShift(self.task.num_domains, self.task.num_classes)

    def objective(self, batch: Batch) -> Losses:
        """Return L_IDM = L_E + λ₁ L_G + λ₂ L_R.

        The comments give the lines of Algorithm 2; line 4 (sampling) is the loop's, and line 18
        (the step on this loss) that of `Algorithm.update`.
        """
        h = self.hparams
        representations = self.features(batch)  # line 5
        logits = self.head(representations)
        risks = per_sample_risk(logits, batch.y)  # line 6
        total = risks.mean()  # line 9
        parts = {"risk": total}
        points = representations.flatten(2)
        tracks_gradients = h.match_gradients and self._tracks(h.gradient_warmup, h.gradient_ema)
        auto = "auto" in (h.gradient_weight, h.representation_weight)
        gradients = None
        if auto or h.track_information or (tracks_gradients and not self._closed_form):
            gradients = head_gradients(self.head, representations, batch.y, logits)  # line 7
        if h.track_information and gradients is not None:
            parts["gradient_information"] = matching_information(gradients)
            parts["representation_information"] = matching_information(points)
        first, second = self._weights(gradients, points, batch, parts)
        if tracks_gradients:
            parts["gradient_penalty"] = self._match_gradients(  # line 11
                gradients, representations, logits, batch.y
            )
            if self._matches(h.gradient_warmup):  # line 10
                total = total + first * parts["gradient_penalty"]  # line 12
        if h.match_representations and self._tracks(h.representation_warmup, h.representation_ema):
            parts["representation_penalty"] = self._match_representations(points, batch)  # line 15
            if self._matches(h.representation_warmup):  # line 14
                total = total + second * parts["representation_penalty"]  # line 16
        if h.risk_weight > 0 and self._tracks(h.risk_warmup, h.risk_ema):
            parts["risk_penalty"] = self.risk_match(risks.unsqueeze(-1))
            if self._matches(h.risk_warmup):
                total = total + h.risk_weight * parts["risk_penalty"]
        return Losses(total, parts)

    def _weights(
        self, gradients: Tensor | None, points: Tensor, batch: Batch, parts: dict[str, Tensor]
    ) -> tuple[float | Tensor, float | Tensor]:
        """Return λ₁ and λ₂; what sets itself is worth recording."""
        h = self.hparams
        first, second = h.gradient_weight, h.representation_weight
        if first != "auto" and second != "auto":
            return first, second
        found = self.strength(
            gradients,
            points,
            batch.y,
            parts["risk"],
            self.task.num_classes,
            self.generator,
            warm=self._matches(h.gradient_warmup),
        )
        parts["disagreement"] = self.strength.disagreement.level.float()
        parts["gradient_weight"], parts["representation_weight"] = found
        return found[0] if first == "auto" else first, found[1] if second == "auto" else second

    @property
    def _closed_form(self) -> bool:
        """Whether gradients can be matched without being held: the head is linear."""
        return type(self.head) is nn.Linear

    def _match_gradients(
        self, gradients: Tensor | None, representations: Tensor, logits: Tensor, labels: Tensor
    ) -> Tensor:
        """Return L_G, from the gradients [domains, batch, P] if they are at hand."""
        dims = None
        if self.sampled is not None:
            count = sum(parameter.numel() for parameter in self.head.parameters())
            dims = self.sampled(count, self.generator).to(logits.device)
        if gradients is None:
            residual = logit_residual(logits, labels)
            if not self._matches(self.hparams.gradient_warmup):  # only remembered: nothing flows
                representations, residual = representations.detach(), residual.detach()
            bias = self.head.bias is not None
            if dims is None:
                return self.gradient_match.of_linear_head(representations, residual, bias=bias)
            gradients = some_linear_head_gradients(representations, residual, dims, bias=bias)
        elif dims is not None:
            gradients = gradients[..., dims]
        penalty: Tensor = self.gradient_match(gradients)
        return penalty

    def _match_representations(self, points: Tensor, batch: Batch) -> Tensor:
        """Return L_R of points [domains, batch, k]."""
        within = self.hparams.match_within
        if within == "all":
            penalty: Tensor = self.representation_match(points)
            return penalty
        # As one class, all are matched with all.
        labels = batch.y if within == "class" else batch.y * self.label_shift(batch.y)
        return pdm_by_class(points, labels, self.task.num_classes, self.representation_match.order)

    def _matches(self, warmup: int) -> bool:
        """Whether this step's penalty enters the loss."""
        step = self.updates if self.hparams.variant == "authors" else self.updates + 1
        return step >= warmup

    def _tracks(self, warmup: int, gamma: float) -> bool:
        """Whether this step's points enter a moving average or the loss."""
        remembers = self.hparams.variant == "authors" and gamma > 0
        return remembers or self._matches(warmup)
