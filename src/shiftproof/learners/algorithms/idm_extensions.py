"""Extensions of `idm` beyond Algorithm 2; all are off by default.

- `gradient_weight="auto"` and `representation_weight="auto"` set the strengths while training
  (`auto_strength`).
- `match_within="class"` matches representations class by class, for domains that hold the classes
  in different shares (`matching.by_class`); `"auto"` does so only if the shares differ.
- `gradient_dimensions` matches a random sample of the gradient's dimensions, for very large heads.
  Its penalty has the exact one's expectation (`matching.sampled_dimensions`).
- `risk_weight` adds a third term λ₃ PDM(ℓ¹ … ℓᵐ; γ₃) from step t₃ on, of the per-sample risks
  ℓⁱ [b]; the paper leaves it to future work (`rdm_pdm`).
- `track_information` records how much information a gradient and a representation hold on their
  domain (`matching.information`), the two terms of the paper's bound (`training.bound_terms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import hparam
from shiftproof.core.types import Task
from shiftproof.learners.algorithms.auto_strength import LabelShift, Strength, Unit
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.learners.algorithms.hparams import memory, steps, weight
from shiftproof.matching.by_class import ClassMatch
from shiftproof.matching.gradients import LinearGradients
from shiftproof.matching.information import matching_information
from shiftproof.matching.sampled_dimensions import SampledDimensions
from shiftproof.matching.term import Grouped, Matched, MatchingTerm, MatchInputs, risks

if TYPE_CHECKING:
    from shiftproof.learners.algorithms.idm import IDM


WITHIN = ("all", "class", "auto")
WITHIN_HELP = "match representations of all samples, or class by class; auto decides"


@dataclass(frozen=True)
class ExtensionHparams(ERM.Hparams):
    """λ₃, t₃, γ₃ and the switches of the extensions."""

    risk_weight: float = weight(0.0, help="λ₃, of risk matching; 0 leaves it out")
    risk_warmup: int = steps(1500, help="t₃, steps before risks are matched")
    risk_ema: float = memory(0.95, help="γ₃, memory of risk matching")
    gradient_dimensions: int = hparam(
        0,
        within=(0, 1e12),
        help="match an unbiased sample of so many gradient dimensions; 0 for all, exactly",
    )
    match_within: str = hparam("all", choices=WITHIN, help=WITHIN_HELP)
    track_information: bool = hparam(
        False, help="record how much information gradients and representations hold on the domain"
    )


class Extensions(nn.Module):
    """The extensions that the hyper-parameters ask for: they change the terms, and record more."""

    def __init__(self, h: IDM.Hparams, task: Task, generator: torch.Generator) -> None:
        super().__init__()
        self._h, self._task, self._generator = h, task, generator
        if h.match_within != "all" and h.representation_ema > 0:
            raise InvalidValue(
                f'`match_within="{h.match_within}"` has no moving average, since every batch holds'
                " other shares of the classes: set `representation_ema=0`"
            )
        self.strength: Strength | None = None
        if "auto" in (h.gradient_weight, h.representation_weight):
            memories = (h.gradient_ema, h.representation_ema)
            is_authors = h.variant == "authors"
            self.strength = Strength(*(Unit(g, h.order, corrected=is_authors) for g in memories))

    def change(self, terms: dict[str, MatchingTerm]) -> None:
        """Change the terms `gradient` and `representation`, and add `risk`."""
        h = self._h
        if h.gradient_dimensions and "gradient" in terms:
            terms["gradient"].points = SampledGradients(
                h.gradient_dimensions, self._generator, redrawn=h.gradient_ema == 0
            )
        if h.match_within != "all" and "representation" in terms:
            match = ClassMatch(h.order)
            if h.match_within == "auto":
                match = ClassMatchIfSharesDiffer(h.order, self._task)
            terms["representation"].match_within_classes(match)
        if h.risk_weight > 0:
            terms["risk"] = MatchingTerm(
                risks, h.risk_weight, h.risk_warmup, h.risk_ema,
                order=h.order, variant=h.variant,
            )  # fmt: skip

    def forward(self, inputs: MatchInputs, risk: Tensor, step: int) -> dict[str, Tensor]:
        """Return what to record, including the weights that are set while training."""
        parts = {}
        if self._h.track_information:
            parts["gradient_information"] = matching_information(inputs.gradients)
            parts["representation_information"] = matching_information(inputs.representations)
        if self.strength is not None:
            start = self._h.gradient_warmup - (self._h.variant == "paper")
            found = self.strength(
                inputs.gradients, inputs.representations, inputs.labels, risk, inputs.classes,
                self._generator, warm=step >= start,
            )  # fmt: skip
            parts["disagreement"] = self.strength.disagreement.level.float()
            parts["gradient_weight"], parts["representation_weight"] = found
        return parts


class SampledGradients(SampledDimensions):
    """Some dimensions of the gradients, as the points of a term."""

    def __init__(self, count: int, generator: torch.Generator, *, redrawn: bool) -> None:
        super().__init__(count, redrawn=redrawn)
        self._generator = generator

    def forward(self, inputs: MatchInputs) -> Matched:
        """Return [domains, batch, count] of the gradients."""
        found = inputs.gradients
        is_linear = isinstance(found, LinearGradients)
        total = found.dims if is_linear else found.shape[2]
        dims = self.drawn(total, self._generator).to(found[0].device)
        if is_linear:
            return (found.some(dims).unflatten(0, inputs.labels.shape),)
        return (found[..., dims],)


class ClassMatchIfSharesDiffer(ClassMatch):
    """Match class by class where domains hold the classes in different shares."""

    def __init__(self, order: int, task: Task) -> None:
        super().__init__(order)
        self.label_shift = LabelShift(task.num_domains, task.num_classes)

    def forward(self, x: Grouped, y: Grouped, classes: int) -> Tensor:
        """Return the penalty of points x and labels y."""
        # Labels that are all 0 make one class of all samples.
        return super().forward(x, y * self.label_shift(y), classes)
