"""Conformal prediction intervals for a domain not seen in training; see `conformal` for classes.

Row i of held-out domain d has the score |yᵢ − ŷᵢ|, from a model not trained on d.  With q the
quantile of the scores over domains and rows (`conformal.domain_quantile`), ŷ ± q covers the label
of a row of a new domain with probability 1 − α, over domains and rows, if there are at least
1 / α − 1 domains; with fewer, no finite interval can guarantee coverage.

A model file stores `HalfWidths` instead of the errors.  Each is the mean of `FEWEST_IN_A_MEAN`
errors from the quantile upwards, to three digits: slightly wider than q, and no single row's error.
If q is among the very largest errors, it is not stored; the quantile of the held-out domains alone
is used instead, without a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.data.domain import as_array
from shiftproof.inference.conformal import domain_quantile, weighted_quantile
from shiftproof.inference.estimates import LEVEL, Estimate, share_estimate
from shiftproof.inference.typicality import FEWEST_IN_A_MEAN
from shiftproof.learners.scores import TARGETS
from shiftproof.training.outputs import NumberOutputs

# The name of the coverage score in a report card, and the level of its intervals.
COVERAGE = "interval_coverage"
COVERAGE_LEVEL = TARGETS[COVERAGE]
# Levels for which a model file stores half-widths.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Width(NamedTuple):
    """The half-width of intervals, and whether their coverage is guaranteed."""

    half: float
    promised: bool


def half_width(held_out: Sequence[NumberOutputs], level: float) -> Width:
    """Return the half-width q of intervals ŷ ± q, and whether their coverage is guaranteed."""
    checked_interval(level)
    if not held_out:
        raise DataError("intervals need runs with held-out domains; there are none")
    return Width(*domain_quantile([np.abs(own.labels - own.predicted) for own in held_out], level))


def checked_interval(level: float) -> float:
    """Return the level of intervals if it is valid, or raise."""
    if not 0 < level < 1:
        raise InvalidValue(f"`interval` must be between 0 and 1, not {level:g}")
    return level


def coverage_estimates(
    outputs: Mapping[str, NumberOutputs], level: float = LEVEL
) -> dict[str, Estimate | None]:
    """Return the coverage on each domain of `COVERAGE_LEVEL` intervals from all other domains.

    `level` is the level of the confidence interval of the coverage.  A single domain gets None.
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
    """The half-width of intervals at each of `LEVELS`."""

    widths: tuple[Width, ...]

    @classmethod
    def of(cls, errors: Sequence[np.ndarray]) -> HalfWidths | None:
        """Return the half-widths from absolute errors of each domain; None with too few rows."""
        values = np.sort(np.concatenate(errors))
        if len(values) < FEWEST_IN_A_MEAN:
            return None
        last = len(values) - FEWEST_IN_A_MEAN
        found = []
        for level in LEVELS:
            q, promised = domain_quantile(errors, level)
            if promised and np.searchsorted(values, q) > last:
                q, promised = weighted_quantile(errors, level, len(errors)), False
            first = min(int(np.searchsorted(values, q)), last)
            mean = float(values[first : first + FEWEST_IN_A_MEAN].mean())
            found.append(Width(_rounded_up(mean), promised))
        return cls(tuple(found))

    @classmethod
    def from_state(cls, modules: Mapping[str, Any], scale: float) -> HalfWidths | None:
        """Return the half-widths from held-out training domains; None if there are none.

        The stored predictions are in standard units (`learners.exact.held_out_arrays`), and
        `scale` converts them.  Return None unless each domain was held out as a whole.
        """
        if "held_out.predicted" not in modules:
            return None
        predicted, y, domain, fold = (
            as_array(modules[f"held_out.{name}"]) for name in ("predicted", "y", "domain", "fold")
        )
        rows = [domain == own for own in np.unique(domain)]
        if any(len(np.unique(fold[own])) > 1 for own in rows):
            return None
        errors = scale * np.abs(y - predicted[:, 0].astype(float))
        return cls.of([errors[own] for own in rows])

    def half_width(self, level: float) -> Width:
        """Return the half-width at the lowest of `LEVELS` that is not below `level`."""
        checked_interval(level)
        if level > LEVELS[-1]:
            raise InvalidValue(f"`interval` must be at most {LEVELS[-1]:g}, not {level:g}")
        return self.widths[int(np.searchsorted(LEVELS, level - 1e-9))]

    def to_json(self) -> list[list[float | bool]]:
        """Return JSON values: the half-width at each level, and whether it is guaranteed."""
        return [[own.half, own.promised] for own in self.widths]

    @classmethod
    def from_json(cls, value: Sequence[Sequence[Any]]) -> HalfWidths:
        """Rebuild from the result of `to_json`; raise `ValueError` for other values."""
        widths = tuple(Width(float(half), bool(promised)) for half, promised in value)
        if len(widths) != len(LEVELS) or not all(0 <= own.half < math.inf for own in widths):
            raise ValueError("the widths of the intervals are damaged")
        return cls(widths)


def _rounded_up(value: float) -> float:
    """Return a positive number rounded up to three significant digits.

    >>> _rounded_up(1.2341), _rounded_up(0.5)
    (1.24, 0.5)
    """
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.3g}")
