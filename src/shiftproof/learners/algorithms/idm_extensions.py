"""Extensions of `idm` beyond Algorithm 2; all are off by default.

- `gradient_weight="auto"` and `representation_weight="auto"` decide during training whether and how
  strongly to match, on the held-out parts of the training domains (`auto_strength`).
- `match_within="class"` matches representations class by class, for domains with different class
  proportions (`matching.by_class`).
- `gradient_dimensions` matches a random sample of the gradient's dimensions, for very large heads.
  The penalty is an unbiased estimate of the exact one (`matching.sampled_dimensions`).
- `risk_weight` adds a third term λ₃ PDM(ℓ¹ … ℓᵐ; γ₃) on the per-sample risks ℓⁱ [b] from step t₃
  on; the paper leaves it to future work (`rdm_pdm`).
- `track_information` records how much information gradients and representations hold about the
  domain (`matching.information`), for the two terms of the paper's bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import hparam
from shiftproof.learners.algorithms.auto_strength import AutoStrength
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.learners.algorithms.hparams import memory, steps, weight
from shiftproof.matching.by_class import ClassMatch
from shiftproof.matching.cross import CrossMatch
from shiftproof.matching.gradients import LinearGradients
from shiftproof.matching.information import matching_information
from shiftproof.matching.pdm import pdm
from shiftproof.matching.sampled_dimensions import SampledDimensions
from shiftproof.matching.spread import check_order
from shiftproof.matching.term import Matched, MatchingTerm, MatchInputs, risks

if TYPE_CHECKING:
    from shiftproof.learners.algorithms.idm import IDM


# `auto` is kept for runs of version 0.1; it means `class`, which is valid for any proportions.
WITHIN = ("all", "class", "auto")
WITHIN_HELP = "match representations over all samples or within each class (auto: as class)"


@dataclass(frozen=True)
class ExtensionHparams(ERM.Hparams):
    """λ₃, t₃, γ₃ and the switches of the extensions."""

    risk_weight: float = weight(0.0, help="λ₃, strength of risk matching; 0 turns it off")
    risk_warmup: int = steps(1500, help="t₃, steps before risks are matched")
    risk_ema: float = memory(0.95, help="γ₃, moving-average decay of risk matching")
    gradient_dimensions: int = hparam(
        0,
        within=(0, 1e12),
        help="number of gradient dimensions to sample for matching (unbiased); 0 for all",
    )
    match_within: str = hparam("all", choices=WITHIN, help=WITHIN_HELP)
    track_information: bool = hparam(
        False, help="record how much gradients and representations reveal about the domain"
    )


def require_no_classes(h: IDM.Hparams) -> None:
    """Reject settings that compare classes, for regression tasks."""
    if "auto" in (h.gradient_weight, h.representation_weight):
        raise InvalidValue(
            "an automatic weight tests what classes mean in each domain, but the labels are"
            " numbers: set `gradient_weight` and `representation_weight`"
        )
    if h.match_within != "all":
        raise InvalidValue(
            f'`match_within="{h.match_within}"` compares classes, but the labels are numbers'
        )


class Extensions(nn.Module):
    """The extensions enabled by the hyper-parameters: they change the terms and record more."""

    def __init__(self, h: IDM.Hparams, generator: torch.Generator) -> None:
        super().__init__()
        self._h, self._generator = h, generator
        if h.match_within != "all" and h.representation_ema > 0:
            raise InvalidValue(
                f'`match_within="{h.match_within}"` cannot use a moving average, because class'
                " shares differ between batches: set `representation_ema=0`"
            )
        automatic = "auto" in (h.gradient_weight, h.representation_weight)
        self.strength = AutoStrength() if automatic else None

    def change(self, terms: dict[str, MatchingTerm]) -> None:
        """Change the terms `gradient` and `representation`, and add `risk`."""
        h = self._h
        if h.gradient_weight == "auto" and h.gradient_ema > 0 and "gradient" in terms:
            terms["gradient"].match = CrossMatch(
                h.gradient_ema, h.order, h.trim, corrected=h.variant == "authors"
            )
        if h.gradient_dimensions and "gradient" in terms:
            terms["gradient"].points = SampledGradients(
                h.gradient_dimensions, self._generator, redrawn=h.gradient_ema == 0
            )
        if h.match_within != "all" and "representation" in terms:
            terms["representation"].match_within_classes(ClassMatch(h.order))
        if h.risk_weight > 0:
            terms["risk"] = MatchingTerm(
                risks, h.risk_weight, h.risk_warmup, h.risk_ema,
                order=h.order, variant=h.variant,
            )  # fmt: skip

    def forward(self, inputs: MatchInputs) -> dict[str, Tensor]:
        """Return the values to record."""
        if not self._h.track_information:
            return {}
        return {
            "gradient_information": matching_information(inputs.gradients),
            "representation_information": matching_information(inputs.representations),
        }

    def waits(self, term: MatchingTerm) -> bool:
        """Whether the automatic strength of a term is still 0, so that it need not be computed."""
        return term.weight == "auto" and self.strength is not None and not self.strength.matches

    def weight(self, name: str, term: MatchingTerm, risk: Tensor, inputs: MatchInputs) -> float:
        """Return λ of a term; the first step of an automatic term fixes its unit."""
        if term.weight != "auto" or self.strength is None:
            return float(term.weight)
        if name not in self.strength.units:
            gamma = {"gradient": self._h.gradient_ema, "representation": self._h.representation_ema}
            own = pdm(term.points(inputs)[0], check_order(self._h.order)).item()
            self.strength.begin(name, risk.item(), own, gamma[name], self._h.order)
        return self.strength.weight(name)


class SampledGradients(SampledDimensions):
    """A sample of the gradient's dimensions, as the points of a term."""

    def __init__(self, count: int, generator: torch.Generator, *, redrawn: bool) -> None:
        super().__init__(count, redrawn=redrawn)
        self._generator = generator

    def forward(self, inputs: MatchInputs) -> Matched:
        """Return the sampled dimensions of the gradients, [domains, batch, count]."""
        found = inputs.gradients
        is_linear = isinstance(found, LinearGradients)
        total = found.dims if is_linear else found.shape[2]
        dims = self.drawn(total, self._generator).to(found[0].device)
        if is_linear:
            return (found.some(dims).unflatten(0, inputs.labels.shape[:2]),)
        return (found[..., dims],)
