"""Test of inputs: are the rows of a new site as typical as those of a held-out training domain?

Scores alone may not show a shift: columns that drift can change them as other class shares would.
The inputs do.  The typicality of a row (`inference.typicality`) is based on its distance to the
nearest training domain.  Each training domain is treated as a new site: its rows are compared with
the other domains.  With m_k the mean typicality of such rows of class k, a site with class shares π
should have

    Σ_k π_k m_k

on average: different shares alone do not change m_k.  Over K held-out domains, the deviations of
the mean typicality from this value have the standard deviation s.  The mean of a new site of n
rows, whose typicality has the variance v, may be lower by t √(s² (1 + 1/K) + v / n), with t a
quantile of Student's t with K − 1 degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftproof.inference.adaptation.held_out import class_shares
from shiftproof.inference.adaptation.label_shift_test import FEWEST


class TypicalRows(NamedTuple):
    """Rows of a training domain: ``typicality`` [n] given the other domains, classes ``y`` [n]."""

    typicality: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class TypicalInputs:
    """Typicality of the rows of held-out training domains.

    ``means`` [c] are m_k, ``spread`` is s, and ``domains`` is K.
    """

    means: np.ndarray
    spread: float
    domains: int

    def p_value(self, typicality: np.ndarray, shares: np.ndarray) -> float:
        """Return the p-value of the hypothesis that a site with class shares [c] is as typical.

        Five domains with mean ½ and spread 0.1, and a site whose rows all have typicality 0.1:

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
        """Return JSON values."""
        return {"means": self.means.tolist(), "spread": self.spread, "domains": self.domains}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TypicalInputs:
        """Rebuild from JSON values."""
        return cls(np.array(stored["means"], float), float(stored["spread"]), stored["domains"])


def typical_inputs(domains: Iterable[TypicalRows], classes: int) -> TypicalInputs | None:
    """Return the typicality of the rows of domains; None if there are too few domains.

    A class with few rows gets the mean over all rows.
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
