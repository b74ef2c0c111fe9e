"""One term of IDM's loss: what is matched, with which weight, and from which step on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

import torch
from torch import Tensor, nn

from shiftproof.matching.match import MovingMatch


def unit_weight(risk: float, penalty: float, gamma: float, order: int) -> float:
    """Return the weight that makes a penalty as large as the risk, or 0 without any penalty.

        λ = (1 − γ)^(p−1) · L₀ / P₀,

    with L₀ and P₀ the risk and PDM of order p on the first matched batch.  The factor cancels the
    moving average, which sums 1 / (1 − γ) batches.  The meaning of a fixed λ differs between
    networks and datasets; this one does not depend on the scale of the features or gradients.

    >>> unit_weight(risk=1.5, penalty=0.5, gamma=0.0, order=2), unit_weight(0.7, 0.0, 0.5, 2)
    (3.0, 0.0)
    """
    return (1 - gamma) ** (order - 1) * risk / penalty if penalty > 0 else 0.0


# [domains, batch, …], or one tensor [batchᵢ, …] for each domain.
Grouped = Any
Matched = tuple[Any, ...]


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

    `points` selects the arguments of `match` from `MatchInputs`.  Steps count from 0.  The variant
    `authors` matches after t steps, with a moving average from the first step on; the variant
    `paper` matches from the t-th step on, and its moving average begins there.
    """

    def __init__(
        self,
        points: Callable[[MatchInputs], Matched],
        weight: float | Literal["auto"],
        warmup: int,
        gamma: float,
        *,
        order: int = 2,
        trim: int = 0,
        variant: str = "authors",
    ) -> None:
        super().__init__()
        is_authors = variant == "authors"
        self.points = points
        self.weight = weight
        self.start = warmup if is_authors else warmup - 1
        self.starts_early = is_authors and gamma > 0
        self.match: nn.Module = MovingMatch(gamma, order, trim, corrected=is_authors)

    def acts(self, step: int) -> bool:
        """Return whether the penalty of this step enters the loss."""
        return step >= self.start

    def tracks(self, step: int) -> bool:
        """Return whether the points of this step enter a moving average or the loss."""
        return self.starts_early or self.acts(step)

    def forward(self, inputs: MatchInputs, step: int) -> Tensor:
        """Return the penalty of one step; it has no gradient until it enters the loss."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.acts(step)):
            penalty: Tensor = self.match(*self.points(inputs))
        return penalty

    def match_within_classes(self, match: nn.Module) -> None:
        """Match representations class by class with `match` from now on."""
        self.match, self.points = match, labelled_representations


# Values of `points`: they select the arguments of `match` from `MatchInputs`.
gradients = attrgetter("gradients", "domains")
representations = attrgetter("representations", "domains")
labelled_representations = attrgetter("representations", "labels", "classes")
