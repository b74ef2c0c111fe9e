"""Intervals that hold a number at a domain never seen, as `conformal` has sets of classes.

Row i of held-out domain d has the score |yᵢ − ŷᵢ|, by a model that was not trained on d.  With q
their quantile over domains and rows (`conformal.domain_quantile`), ŷ ± q holds the label of a row
of a new domain with probability 1 − α, over domains and rows, if the domains are at least
1 / α − 1; with fewer no finite interval can promise that.

A model file keeps `HalfWidths` in place of the errors.  Each is the mean of `FEWEST_IN_A_MEAN`
errors from the quantile upwards, to three digits: a little wider than q, and no single row's error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.inference.conformal import domain_quantile, domains_needed
from shiftproof.inference.estimates import LEVEL, Estimate, share_estimate
from shiftproof.inference.typicality import FEWEST_IN_A_MEAN
from shiftproof.learners.scores import TARGETS
from shiftproof.training.outputs import NumberOutputs

# The score of a report card, and the level of its intervals.
COVERAGE = "interval_coverage"
COVERAGE_LEVEL = TARGETS[COVERAGE]
# Levels that a model file has a width of.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def half_width(held_out: Sequence[NumberOutputs], level: float) -> tuple[float, bool]:
    """Return q for intervals ŷ ± q, and whether the domains suffice for the guarantee."""
    checked_interval(level)
    if not held_out:
        raise DataError("intervals need runs with held-out domains; there are none")
    return domain_quantile([np.abs(own.labels - own.predicted) for own in held_out], level)


def checked_interval(level: float) -> float:
    """Return the level of intervals, or raise."""
    if not 0 < level < 1:
        raise InvalidValue(f"`interval` must be between 0 and 1, not {level:g}")
    return level


def coverage_estimates(
    outputs: Mapping[str, NumberOutputs], level: float = LEVEL
) -> dict[str, Estimate | None]:
    """Return the share of each domain inside intervals of `COVERAGE_LEVEL` from all others.

    `level` is that of the interval of the share.  One domain has no others: None.
    """
    found: dict[str, Estimate | None] = {}
    for domain, own in outputs.items():
        others = [each for name, each in outputs.items() if name != domain]
        if not others or not len(own.labels):
            found[domain] = None
            continue
        q, _ = half_width(others, COVERAGE_LEVEL)
        found[domain] = share_estimate(np.abs(own.labels - own.predicted) <= q, level)
    return found


@dataclass(frozen=True)
class HalfWidths:
    """Half the width of intervals, by their level, from errors on `domains` held-out domains."""

    widths: Mapping[float, float]
    domains: int

    @classmethod
    def of(cls, errors: Sequence[np.ndarray]) -> HalfWidths | None:
        """Return the widths from absolute errors of each domain; None if rows are too few."""
        values = np.sort(np.concatenate(errors))
        widths = {}
        for level in LEVELS:
            q, _ = domain_quantile(errors, level)
            first = int(np.searchsorted(values, q))
            if len(values) - first >= FEWEST_IN_A_MEAN:
                widths[level] = _rounded_up(float(values[first:][:FEWEST_IN_A_MEAN].mean()))
        return cls(widths, len(errors)) if widths else None

    def half_width(self, level: float) -> tuple[float, bool]:
        """Return that of the next level that is known, and if the domains suffice for `level`."""
        checked_interval(level)
        enough = [known for known in self.widths if known >= level - 1e-9]
        if not enough:
            raise InvalidValue(
                f"`interval` must be at most {max(self.widths):g} for this model, not {level:g}:"
                " its training domains have too few rows"
            )
        return self.widths[min(enough)], self.domains >= domains_needed(level)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        pairs = [[level, width] for level, width in self.widths.items()]
        return {"widths": pairs, "domains": self.domains}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> HalfWidths:
        """Rebuild what `to_json` returned; other values are a `ValueError`."""
        widths = {float(level): float(width) for level, width in value["widths"]}
        known = all(level in LEVELS and 0 <= own < math.inf for level, own in widths.items())
        if not (widths and known and value["domains"] > 0):
            raise ValueError("the widths of the intervals are damaged")
        return cls(widths, int(value["domains"]))


def _rounded_up(value: float) -> float:
    """Return a number of three digits that is no less.

    >>> _rounded_up(1.2341), _rounded_up(0.5)
    (1.24, 0.5)
    """
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.3g}")
