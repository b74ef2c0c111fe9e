"""Are the rows of a new site as typical as those of a training domain that was held out?

Scores alone may not tell: columns that drift can move them as other class shares would.  Inputs do.
The typicality of a row (`inference.typicality`) is that of its distance to the nearest training
domain.  Each training domain plays the new site: its rows are compared with the other domains.
With m_k the mean typicality of such rows of class k, a site with class shares π should have

    Σ_k π_k m_k

on average: other shares alone change no m_k.  Over K held-out domains, the mean typicality differs
from that by a standard deviation s.  A new site of n rows, whose typicality has the variance v, may
be lower by t √(s² (1 + 1/K) + v / n), with t a quantile of Student's t with K − 1 degrees of
freedom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftproof.inference.adaptation.held_out import class_shares
from shiftproof.inference.adaptation.label_shift_test import FEWEST


class TypicalRows(NamedTuple):
    """Rows of a training domain: ``typicality`` [n] for the other domains, classes ``y`` [n]."""

    typicality: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class TypicalInputs:
    """How typical the rows of held-out training domains are.

    ``means`` [c] are m_k, and ``spread`` is s, over so many ``domains``.
    """

    means: np.ndarray
    spread: float
    domains: int

    def p_value(self, typicality: np.ndarray, shares: np.ndarray) -> float:
        """Return the p-value of a site as typical as these, with class shares [c].

        Five domains of mean ½ with the spread 0.1, and a site whose rows are all at 0.1:

        >>> found = TypicalInputs(np.array([0.5, 0.5]), 0.1, 5)
        >>> round(found.p_value(np.full(400, 0.1), np.array([0.3, 0.7])), 3)
        0.011
        """
        from scipy.stats import t as student  # type: ignore[import-untyped]

        sampling = float(np.var(typicality)) / len(typicality)
        error = np.sqrt(self.spread**2 * (1 + 1 / self.domains) + sampling)
        below = float(shares @ self.means - typicality.mean())
        return float(student.sf(below / max(error, 1e-12), self.domains - 1))

    def to_json(self) -> dict[str, Any]:
        """Return as JSON values."""
        return {"means": self.means.tolist(), "spread": self.spread, "domains": self.domains}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TypicalInputs:
        """Rebuild from JSON values."""
        return cls(np.array(stored["means"], float), float(stored["spread"]), stored["domains"])


def typical_inputs(domains: Iterable[TypicalRows], classes: int) -> TypicalInputs | None:
    """Return how typical the rows of domains are, each compared with the others; None if too few.

    A class with few rows counts as all rows do.
    """
    large = [own for own in domains if len(own.y) >= FEWEST]
    if len(large) < 2:
        return None
    rows = np.concatenate([own.typicality for own in large])
    y = np.concatenate([own.y for own in large])
    count = np.bincount(y, minlength=classes)
    sums = np.bincount(y, rows, minlength=classes)
    means = np.where(count >= FEWEST, sums / np.maximum(count, 1), rows.mean())
    apart = [own.typicality.mean() - class_shares(own.y, classes) @ means for own in large]
    return TypicalInputs(means, float(np.std(apart, ddof=1)), len(large))
