"""Expected value of one score at the next domain, from estimates of domains held out in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shiftproof.core.text import listed
from shiftproof.inference.estimates import LEVEL, Estimate, scale_of
from shiftproof.inference.meta_analysis import FEW, Predictive, outlier_p_values, predictive
from shiftproof.learners.scores import LOSSES

# A domain is an outlier if its corrected p-value is below this level.
OUTLIER = 0.05


@dataclass(frozen=True)
class ExpectedScore:
    """Expected value of one score at the next domain.

    `mean` is the mean over domains on the additive scale: half of the domains are better.
    `interval` contains the score of the next domain with probability `level`.  `predictive` is its
    distribution on the additive scale.  `estimates` are the estimates of the held-out domains, and
    `outliers` the domains that do not fit the others.
    """

    metric: str
    level: float
    estimates: Mapping[str, Estimate]
    predictive: Predictive
    outliers: tuple[str, ...]

    @property
    def mean(self) -> float:
        """The score of a typical domain: the mean on the additive scale; half are better."""
        return scale_of(self.metric).back(self.predictive.mean)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The prediction interval of the next domain at `level`."""
        low, high = self.predictive.interval(self.level)
        return scale_of(self.metric).back(low), scale_of(self.metric).back(high)

    @cached_property
    def mean_interval(self) -> tuple[float, float]:
        """The confidence interval of the mean over domains at `level`."""
        low, high = self.predictive.mean_interval(self.level)
        return scale_of(self.metric).back(low), scale_of(self.metric).back(high)

    def probability_worse(self, threshold: float) -> float:
        """Return the probability that the next domain scores worse than a threshold."""
        below = self.predictive.below(scale_of(self.metric).there(threshold))
        return 1 - below if self.metric in LOSSES else below

    def holds(self, own: Estimate) -> tuple[float, float]:
        """Return the prediction interval of an observed score with the sampling error of `own`."""
        low, high = self.predictive.interval(self.level, own.variance)
        return scale_of(self.metric).back(low), scale_of(self.metric).back(high)

    @property
    def note(self) -> str:
        """A sentence if there are few domains, and one on outliers; empty if neither applies."""
        found = []
        if (k := len(self.estimates)) < FEW:
            found.append(
                f"{k} domains hardly show how much domains differ, so the interval is wide; more"
                " domains would narrow it."
            )
        if self.outliers:
            found.append(f"Unlike the other domains: {listed(self.outliers)}.")
        return " ".join(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the expected score as JSON values."""
        low, high = self.interval
        return {
            "mean": self.mean,
            "low": low,
            "high": high,
            "level": self.level,
            "tau": self.predictive.tau,
            "domains": len(self.estimates),
            "outliers": list(self.outliers),
        }


def expected_score(
    metric: str, estimates: Mapping[str, Estimate | None], level: float = LEVEL
) -> ExpectedScore | None:
    """Return the expected score, or None if it is defined in fewer than two domains."""
    known = {domain: own for domain, own in estimates.items() if own is not None}
    if len(known) < 2:
        return None
    values = np.array([own.additive for own in known.values()])
    variances = np.array([own.variance for own in known.values()])
    p_values = outlier_p_values(values, variances)
    outliers = tuple(domain for domain, p in zip(known, p_values, strict=True) if p < OUTLIER)
    return ExpectedScore(metric, level, known, predictive(values, variances), outliers)
