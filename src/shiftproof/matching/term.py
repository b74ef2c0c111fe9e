"""One term of IDM's loss: what is matched, with which weight, and from which step on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Literal

import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.matching.levels import check_order
from shiftproof.matching.pdm import MovingMatch, pdm_by_class

# [domains, batch, …], or one tensor [batchᵢ, …] for each domain.
Grouped = Any


@dataclass(frozen=True)
class MatchInputs:
    """The tensors of one batch to match: [domains, batch, …], or one group per domain.

    `domains` are the domain ids, by default 0, 1, …  The gradients are computed on first access,
    since not every step needs them.
    """

    representations: Grouped
    labels: Grouped
    classes: int
    compute_gradients: Callable[[], Any]
    domains: Sequence[int] | None = None

    @cached_property
    def gradients(self) -> Any:
        """The per-sample gradients of the head's parameters."""
        return self.compute_gradients()


class MatchingTerm(nn.Module):
    """λ PDM(·; γ) from step t on (Algorithm 2, lines 10–12 and 14–16).

    `points` names what of `MatchInputs` is matched.  Steps count from 0.  The variant
    `authors` matches after t steps, with a moving average from the first step on; the variant
    `paper` matches from the t-th step on, and its moving average begins there.  With `by_class`,
    representations are matched class by class (`pdm_by_class`).
    """

    def __init__(
        self,
        points: Literal["gradients", "representations"],
        weight: float,
        warmup: int,
        gamma: float,
        *,
        order: int = 2,
        trim: int = 0,
        variant: str = "authors",
        by_class: bool = False,
    ) -> None:
        super().__init__()
        is_authors = variant == "authors"
        if by_class and gamma > 0:
            raise InvalidValue(
                '`match_within="class"` has no moving average, since every batch holds other shares'
                " of the classes: set `representation_ema=0`"
            )
        labelled = ("representations", "labels", "classes")
        self.points = attrgetter(*(labelled if by_class else (points, "domains")))
        self.weight = weight
        self.start = warmup if is_authors else warmup - 1
        self.starts_early = is_authors and gamma > 0
        self.match: Callable[..., Tensor] = (
            partial(pdm_by_class, order=check_order(order))
            if by_class
            else MovingMatch(gamma, order, trim, corrected=is_authors)
        )

    def acts(self, step: int) -> bool:
        """Return whether the penalty of this step enters the loss."""
        return step >= self.start

    def tracks(self, step: int) -> bool:
        """Return whether the points of this step enter a moving average or the loss."""
        return self.starts_early or self.acts(step)

    def forward(self, inputs: MatchInputs, step: int) -> Tensor:
        """Return the penalty of one step; it has no gradient until it enters the loss."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.acts(step)):
            return self.match(*self.points(inputs))


def with_penalties(
    loss: Tensor, terms: Mapping[str, MatchingTerm], inputs: MatchInputs, step: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss plus λ · penalty of each term that acts, and all penalties by name."""
    penalties = {}
    for name, term in terms.items():
        if term.tracks(step):
            penalty = penalties[f"{name}_penalty"] = term(inputs, step)
            if term.acts(step):
                loss = loss + term.weight * penalty
    return loss, penalties
