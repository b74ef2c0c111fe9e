"""Extensions of `idm` beyond Algorithm 2; all are off by default.

- `gradient_weight="auto"` and `representation_weight="auto"` decide during training whether and how
  strongly to match, on the held-out parts of the training domains (`auto_strength`).
- `match_within="class"` matches representations class by class, for domains with different class
  proportions (`matching.pdm`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import hparam
from shiftproof.learners.algorithms.auto_strength import AutoStrength
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.matching.levels import check_order
from shiftproof.matching.match import CrossMatch
from shiftproof.matching.pdm import ClassMatch, pdm
from shiftproof.matching.term import MatchingTerm, MatchInputs

if TYPE_CHECKING:
    from shiftproof.learners.algorithms.idm import IDM


# `auto` is kept for runs of version 0.1; it means `class`, which is valid for any proportions.
WITHIN = ("all", "class", "auto")
WITHIN_HELP = "match representations over all samples or within each class (auto: as class)"


@dataclass(frozen=True)
class ExtensionHparams(ERM.Hparams):
    """The switch of the extension that is not a weight."""

    match_within: str = hparam("all", choices=WITHIN, help=WITHIN_HELP)


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


class Extensions:
    """The extensions enabled by the hyper-parameters: they change the terms."""

    def __init__(self, h: IDM.Hparams) -> None:
        self._h = h
        if h.match_within != "all" and h.representation_ema > 0:
            raise InvalidValue(
                f'`match_within="{h.match_within}"` cannot use a moving average, because class'
                " shares differ between batches: set `representation_ema=0`"
            )
        automatic = "auto" in (h.gradient_weight, h.representation_weight)
        self.strength = AutoStrength() if automatic else None

    def change(self, terms: dict[str, MatchingTerm]) -> None:
        """Change the terms `gradient` and `representation`."""
        h = self._h
        if h.gradient_weight == "auto" and h.gradient_ema > 0 and "gradient" in terms:
            terms["gradient"].match = CrossMatch(
                h.gradient_ema, h.order, h.trim, corrected=h.variant == "authors"
            )
        if h.match_within != "all" and "representation" in terms:
            terms["representation"].match_within_classes(ClassMatch(h.order))

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
