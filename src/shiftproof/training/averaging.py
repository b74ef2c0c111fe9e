"""Weight averages over a run, for any algorithm: `ema`, `swad` and `best`.

Everything that predictions depend on is averaged: the parameters and the running statistics of
normalisation layers.  Other buffers (a step count, the moving averages of Fishr or IDM) belong to
the algorithm and are not averaged.  Training itself does not change: it continues from the raw
weights.  `best` selects the weights of a single step, with the same interface.

A record scores the weights that the run would return if it ended there.  Its field `scored`
describes them: which steps were averaged, or the raw weights if there is no average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from shiftproof.learners.algorithms import Algorithm


class Span(NamedTuple):
    """An average of the weights after each of the steps `first` to `last`."""

    weights: list[Tensor]
    first: int
    last: int

    @property
    def steps(self) -> int:
        """The number of steps averaged."""
        return self.last - self.first + 1

    def joined(self, later: Span) -> Span:
        """Return the mean over the steps of both spans, if each is a mean over its own steps."""
        weights = [weight.clone() for weight in self.weights]
        blend(weights, later.weights, self.steps / (self.steps + later.steps))
        return Span(weights, self.first, later.last)


def blend(average: list[Tensor], new: list[Tensor], keep: float) -> None:
    """Replace each tensor ā of `average` by keep · ā + (1 − keep) · new, as torch does."""
    get_ema_multi_avg_fn(keep)(average, new, 0)  # type: ignore[no-untyped-call]


def warm_decay(n: int) -> float:
    """Return the decay of a moving average of n weights: min(0.999, (1 + n) / (10 + n)).

    The average forgets the first steps quickly: after step t ≤ 9000 it covers about the last t / 9
    steps.  With 0.999 throughout, 37% of the first weights would remain after step 1000.

    >>> warm_decay(1), warm_decay(8989) < 0.999, warm_decay(9000)
    (0.18181818181818182, True, 0.999)
    """
    return min(0.999, (1 + n) / (10 + n))


@dataclass(frozen=True)
class LossValley:
    """SWAD's window of steps, found online from the validation risks E₁, E₂, ….

    Each evaluation adds its risk and a segment: the mean weights of the steps since the last
    evaluation.  With patiences Nₛ and Nₑ and tolerance r, as in algorithm 1 of Cha et al. (2021),
    *SWAD: Domain Generalization by Seeking Flat Minima*, but with segments for single steps:

    - the window opens with segment s, for the first s with Eₛ = min(Eₛ, …, E_{s+Nₛ−1}); the
      valley's `limit` is r · mean(Eₛ, …, E_{s+Nₛ−1});
    - it closes with the last segment before the first Nₑ evaluations in a row above the limit.
      Without such Nₑ evaluations, it extends to the last one.

    Every step of the window has the same weight.  The authors' code differs: it gives every segment
    the same weight, however short; it may begin a few segments earlier, if within the limit; and it
    stops training when the window closes.  A `LossValley` is immutable: `after` returns the next
    state.
    """

    start_patience: int = 3
    end_patience: int = 6
    tolerance: float = 1.3
    # Before the window opens: the last few evaluations.
    recent: tuple[tuple[Span, float], ...] = ()
    # In the window: the mean from s to the last evaluation, and to the last within the limit.
    limit: float | None = None
    whole: Span | None = None
    within: Span | None = None
    above: int = 0

    @property
    def ended(self) -> bool:
        """Whether the window is closed: later evaluations no longer change it."""
        return self.above == self.end_patience

    def after(self, segment: Span, risk: float) -> LossValley:
        """Return the state after one more evaluation."""
        if self.ended:
            return self
        if self.limit is None:
            return self._opened((*self.recent, (segment, risk))[-self.start_patience :])
        whole = segment if self.whole is None else self.whole.joined(segment)
        if risk <= self.limit:
            return replace(self, whole=whole, within=whole, above=0)
        valley = replace(self, whole=whole, above=self.above + 1)
        return replace(valley, whole=self.within) if valley.ended else valley

    def _opened(self, recent: tuple[tuple[Span, float], ...]) -> LossValley:
        risks = [risk for _, risk in recent]
        if len(recent) < self.start_patience or min(risks) < risks[0]:
            return replace(self, recent=recent)
        valley = replace(self, recent=(), limit=self.tolerance * fmean(risks))
        for segment, risk in recent:
            valley = valley.after(segment, risk)
        return valley


def averaged_tensors(algorithm: Algorithm) -> list[Tensor]:
    """Return the parameters and running statistics, without copying them."""
    running = ("running_mean", "running_var")
    statistics = [value for name, value in algorithm.named_buffers() if name.endswith(running)]
    return [weight.detach() for weight in (*algorithm.parameters(), *statistics)]


class Average:
    """Base class of weight averages; by itself, it averages nothing."""

    # The name in records and checkpoints.
    name: ClassVar[str] = ""
    # Whether `judge` needs the risk of the raw weights on the training domains' held-out parts.
    judges: ClassVar[bool] = False

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        # The average to score and to return, or None for the raw weights.
        self.span: Span | None = None

    def follow(self, step: int) -> None:
        """Add the weights after update `step`."""

    def judge(self, risk: float) -> None:
        """Add the validation risk of the raw weights at an evaluation."""

    def described(self) -> dict[str, Any]:
        """Describe which weights are scored as `{"weights": …}`; empty without averaging."""
        steps = self.span and [*self.span[1:]]
        return {"weights": {"average": self.name, "steps": steps}} if self.name else {}

    def state(self) -> dict[str, Any]:
        """Return the state as `{"average": …}`; empty without averaging."""
        return {"average": {self.name: self.span}} if self.name else {}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the average from a state that contains the output of `state`."""
        if self.name:
            self.span = self._read(state["average"][self.name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the averaged weights inside the context, and restore the raw weights after it."""
        if self.span is None:
            yield
            return
        live = averaged_tensors(self._algorithm)
        raw = [weight.clone() for weight in live]
        try:
            for weight, averaged in zip(live, self.span.weights, strict=True):
                weight.copy_(averaged)
            yield
        finally:
            for weight, before in zip(live, raw, strict=True):
                weight.copy_(before)

    def _extended(self, span: Span | None, step: int, keep: Callable[[int], float]) -> Span:
        """Return `span` with the weights after `step` added; its tensors change in place."""
        live = averaged_tensors(self._algorithm)
        if span is None:
            return Span([weight.clone() for weight in live], step, step)
        blend(span.weights, live, keep(span.steps))
        return span._replace(last=step)

    def _read(self, saved: list[Any] | None) -> Span | None:
        if saved is None:
            return None
        live = averaged_tensors(self._algorithm)
        weights = [w.to(now, copy=True) for w, now in zip(saved[0], live, strict=True)]
        return Span(weights, *saved[1:])


class ExponentialAverage(Average):
    """`ema`: w̄₁ = w₁, w̄ₙ₊₁ = dₙ w̄ₙ + (1 − dₙ) wₙ₊₁ after every step, dₙ = `warm_decay`."""

    name = "ema"

    def follow(self, step: int) -> None:
        """Update the average."""
        self.span = self._extended(self.span, step, warm_decay)


class ValleyAverage(Average):
    """`swad`: the mean of the weights after every step of the window of a `LossValley`.

    `weights` in a record gives the state of the valley: `not found` (the raw weights are scored),
    `open` (the window extends to the newest evaluation) or `ended`.
    """

    judges = True

    def __init__(self, algorithm: Algorithm) -> None:
        super().__init__(algorithm)
        self._valley = LossValley()
        self._segment: Span | None = None

    def follow(self, step: int) -> None:
        """Add the weights to the mean since the last evaluation."""
        if not self._valley.ended:
            self._segment = self._extended(self._segment, step, lambda n: n / (n + 1))

    def judge(self, risk: float) -> None:
        """End the segment with its risk."""
        if self._segment is not None:
            self._valley = self._valley.after(self._segment, risk)
            self._segment, self.span = None, self._valley.whole

    def described(self) -> dict[str, Any]:
        """Return the state of the valley and the averaged steps."""
        if self.span is None:
            return {"weights": {"average": "raw", "valley": "not found"}}
        valley = "ended" if self._valley.ended else "open"
        return {"weights": {"average": "swad", "steps": [*self.span[1:]], "valley": valley}}

    def state(self) -> dict[str, Any]:
        """Return the window and the unfinished segment."""
        return {"average": {"segment": self._segment, "valley": vars(self._valley)}}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the window and the unfinished segment."""
        self._segment = self._read(state["average"]["segment"])
        valley = dict(state["average"]["valley"])
        valley["recent"] = tuple((self._read(span), risk) for span, risk in valley["recent"])
        valley |= {name: self._read(valley[name]) for name in ("whole", "within")}
        self._valley = LossValley(**valley)
        self.span = self._valley.whole


class BestWeights(Average):
    """`best`: the weights of the evaluation with the lowest validation risk.

    Ties go to the earliest, as in the protocol's selection by training domains.
    """

    name = "best"
    judges = True

    def __init__(self, algorithm: Algorithm) -> None:
        super().__init__(algorithm)
        self._risk = math.inf
        # Every step sets this before it is used, so it is not part of the state.
        self._step = 0

    def follow(self, step: int) -> None:
        """Store the step of the weights."""
        self._step = step

    def judge(self, risk: float) -> None:
        """Copy the weights if they are the best so far."""
        if risk < self._risk:
            self._risk = risk
            self.span = self._extended(None, self._step, warm_decay)

    def state(self) -> dict[str, Any]:
        """Return the best weights and their risk."""
        return {"average": {"best": self.span, "risk": self._risk}}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the best weights and their risk."""
        super().load(state)
        self._risk = state["average"]["risk"]


AVERAGES = {"none": Average, "ema": ExponentialAverage, "swad": ValleyAverage, "best": BestWeights}
