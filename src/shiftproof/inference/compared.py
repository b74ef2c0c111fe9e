"""Comparison of the score of a new domain with its prediction interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shiftproof.core.text import three_digits
from shiftproof.inference.expected import Expected, estimate_of, metric_name
from shiftproof.learners.scores import LOSSES, TARGETS
from shiftproof.training.outputs import AnyOutputs


@dataclass(frozen=True)
class Comparison:
    """A score of a new domain and its prediction interval, which includes its sampling error."""

    domain: str
    metric: str
    value: float
    low: float
    high: float

    @property
    def state(self) -> str:
        """`inside`, `worse` or `better` than expected."""
        if self.low <= self.value <= self.high:
            return "inside"
        if self.metric in TARGETS:
            return "worse"  # further from its target than the domains before
        return "worse" if (self.value > self.high) == (self.metric in LOSSES) else "better"

    @property
    def sentence(self) -> str:
        """The comparison in words, with advice."""
        side = {True: "below", False: "above"}[self.value < self.low]
        where = "inside" if self.state == "inside" else side
        advice = {
            "inside": "",
            "worse": ": look at what differs there (`shiftproof diagnose`) before using the model",
            "better": ": make sure that the model was not trained on these samples",
        }[self.state]
        name = metric_name(self.metric)
        return (
            f"{self.domain}: {name} {three_digits(self.value)} is {where} the range"
            f" {three_digits(self.low)} to {three_digits(self.high)} expected of a new"
            f" domain{advice}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {**vars(self), "state": self.state}


def compare(expected: Expected, domain: str, outputs: AnyOutputs) -> Comparison | None:
    """Compare a new domain with the expected score; return None if its score is undefined."""
    score = expected.headline
    own = estimate_of(expected.metric, outputs, expected.level)
    if own is None:
        return None
    return Comparison(domain, expected.metric, own.value, *score.holds(own))
