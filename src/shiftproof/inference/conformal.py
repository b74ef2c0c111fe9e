"""Conformal prediction sets of classes, and intervals of numbers, for a domain not in training.

Conformal sets for new rows of *known* domains treat rows as exchangeable.  At a new domain they are
not: only the domains are exchangeable.  Row i of held-out domain d has the score 1 − p(its class),
from a model not trained on d.  With K domains of n_d rows, let q be the (1 − α) quantile of

    Σ_d Σ_i δ(score of row i of d) / ((K + 1) n_d)  +  δ(∞) / (K + 1).

The set {class : 1 − p(class) ≤ q} then covers the class of a row of a new domain with probability
1 − α, over domains and rows (Dunn, Wasserman and Ramdas, 2023; Lee, Barber and Willett, 2023).
The mass at ∞ stands for the new domain.  With fewer than 1 / α − 1 domains (9 for 90%), q is
infinite and every set contains all classes.  No method can guarantee coverage with smaller sets
there, so q is computed from the K domains alone, and `promised` is False.

The scores come from models trained without one domain, the predictions from a model trained on
all.  As with the jackknife+ (Barber et al., 2021), the guarantee holds to the extent that leaving
out one domain changes the model little.

For numbers, the score of row i is |yᵢ − ŷᵢ|, and the interval ŷ ± q covers its label.  A model file
stores `HalfWidths` instead of the errors.  Each is the mean of `FEWEST_IN_A_MEAN` errors from the
quantile upwards, to three digits: slightly wider than q, and no single row's error.  If q is among
the very largest errors, it is not stored; the quantile of the held-out domains alone is used
instead, without a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.inference.adaptation.label_shift import HeldOut
from shiftproof.inference.typicality import FEWEST_IN_A_MEAN
from shiftproof.learners.array_model import require
from shiftproof.metrics.outputs import NumberOutputs, Outputs
from shiftproof.metrics.regression import domain_quantile, weighted_quantile


@dataclass(frozen=True)
class Sets:
    """Prediction sets `members` [n, classes]; `promised` is whether the coverage is guaranteed."""

    members: np.ndarray
    promised: bool


def domain_sets(held_out: Sequence[Outputs], probabilities: np.ndarray, level: float) -> Sets:
    """Return prediction sets for probabilities [n, classes], calibrated on held-out domains."""
    threshold, promised = score_threshold(held_out, level)
    # Files store single precision; a rounding error must not exclude a class.
    return Sets(1 - probabilities <= threshold + 1e-6, promised)


def score_threshold(held_out: Sequence[Outputs], level: float) -> tuple[float, bool]:
    """Return the quantile q of the scores, and whether there are enough domains to guarantee it."""
    checked_level(level, "sets")
    return domain_quantile(
        [1 - part.probabilities[np.arange(len(part.labels)), part.labels] for part in held_out],
        level,
    )


# Levels for which a model file stores half-widths.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Width(NamedTuple):
    """The half-width of intervals, and whether their coverage is guaranteed."""

    half: float
    promised: bool


def half_width(held_out: Sequence[NumberOutputs], level: float) -> Width:
    """Return the half-width q of intervals ŷ ± q, and whether their coverage is guaranteed."""
    checked_level(level, "interval")
    errors = [np.abs(part.labels - part.predicted) for part in held_out]
    return Width(*domain_quantile(errors, level))


def checked_level(level: float, name: str) -> None:
    """Raise unless the level of sets or intervals, the setting `name`, is valid."""
    if not 0 < level < 1:
        raise InvalidValue(f"`{name}` must be between 0 and 1, not {level:g}")


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
        widths = []
        for level in LEVELS:
            q, promised = domain_quantile(errors, level)
            if promised and np.searchsorted(values, q) > last:
                q, promised = weighted_quantile(errors, level, len(errors)), False
            first = min(int(np.searchsorted(values, q)), last)
            mean = float(values[first : first + FEWEST_IN_A_MEAN].mean())
            widths.append(Width(_rounded_up(mean), promised))
        return cls(tuple(widths))

    @classmethod
    def of_held_out(cls, held_out: HeldOut, scale: float) -> HalfWidths | None:
        """Return the half-widths from held-out training domains.

        The predictions are in standard units (`learners.exact.Exact.fit`), and `scale` converts
        them.  Return None unless each domain was held out as a whole.
        """
        members = [held_out.domain == domain for domain in np.unique(held_out.domain)]
        if any(len(np.unique(held_out.fold[rows])) > 1 for rows in members):
            return None
        errors = scale * np.abs(held_out.y - held_out.predicted[:, 0])
        return cls.of([errors[rows] for rows in members])

    def half_width(self, level: float) -> Width:
        """Return the half-width at the lowest of `LEVELS` that is not below `level`."""
        checked_level(level, "interval")
        if level > LEVELS[-1]:
            raise InvalidValue(f"`interval` must be at most {LEVELS[-1]:g}, not {level:g}")
        return self.widths[int(np.searchsorted(LEVELS, level - 1e-9))]

    def to_json(self) -> list[list[float | bool]]:
        """Return JSON values: the half-width at each level, and whether it is guaranteed."""
        return [list(width) for width in self.widths]

    @classmethod
    def from_json(cls, value: Sequence[Sequence[Any]]) -> HalfWidths:
        """Rebuild from the result of `to_json`; raise `ValueError` for other values."""
        widths = tuple(Width(float(half), bool(promised)) for half, promised in value)
        whole = all(0 <= width.half < math.inf for width in widths)
        require(whole and len(widths) == len(LEVELS), "the widths of the intervals are damaged")
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
