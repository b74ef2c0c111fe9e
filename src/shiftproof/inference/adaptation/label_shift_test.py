"""Do the rows of a new site look like the classes of the training domains in other shares?

Under label shift, the scores at a new site are a mixture of those of the training classes.  Scores
are cut into B bins: the most probable class at equal shares, and how probable it is.  With f_k [B]
the shares of the bins within class k of the training domains, and q [B] those of n new rows,

    q = Σ_k π_k f_k + error

must hold for some shares π.  The error has three parts: sampling of the new rows, sampling of the
training rows, and that of sites: within a class, training domains differ too.  The last is measured
by one number, the correlation ρ of the bins of two rows of one class and one domain: a site's own
f_k varies with covariance ρ (diag f_k − f_k f_kᵀ), as Dirichlet shares do.  So the covariance is

    V = (diag q̂ − q̂ q̂ᵀ) / n + Σ_k π_k² (ρ + u_k) (diag f_k − f_k f_kᵀ),

with u_k the same for the mean over training domains.  The least of (q − Fπ)ᵀ V⁻¹ (q − Fπ) over π
has, with ρ known, a χ² distribution with B − c degrees of freedom: an overidentification test
(Hansen, 1982).  ρ is estimated by moments from the training domains, so Fisher's F takes its place.
A small p-value says that the new rows differ from the training domains in more than their shares,
and by more than training domains differ among each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.inference.adaptation.held_out import HeldOut, class_shares
from shiftproof.inference.adaptation.label_shift import weighted
from shiftproof.learners.stacking import mixture_proportions

# Bins of probability for each predicted class: ten in all for two classes.
BINS_OF_TWO, BINS_OF_MORE = 5, 3
# A class with fewer training rows has no distribution of scores, and a domain no own part in one.
FEWEST = 10


@dataclass(frozen=True)
class ScoreBins:
    """How scores are cut, and their distribution within the classes of the training domains.

    ``edges`` [c, bins − 1] of the probability of each predicted class; ``shares`` F [B, c] with
    columns that sum to 1, or are 0 for a class with too few rows; ``errors`` u [c]; ``correlation``
    ρ; and the ``freedom`` that it was estimated with.
    """

    edges: np.ndarray
    shares: np.ndarray
    errors: np.ndarray
    correlation: float
    freedom: float

    def to_json(self) -> dict[str, Any]:
        """Return as JSON values."""
        return {
            "edges": self.edges.tolist(),
            "shares": self.shares.tolist(),
            "errors": self.errors.tolist(),
            "correlation": self.correlation,
            "freedom": self.freedom,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ScoreBins:
        """Rebuild from JSON values."""
        arrays = {name: np.array(stored[name], float) for name in ("edges", "shares", "errors")}
        return cls(
            **arrays, correlation=float(stored["correlation"]), freedom=float(stored["freedom"])
        )


def bins_of(log_likelihood: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bin of each row [n]: its most probable class at equal shares, and how probable."""
    classes = len(edges)
    equal = weighted(log_likelihood, np.full(classes, 1 / classes))
    predicted = equal.argmax(axis=1)
    beyond = (equal.max(axis=1)[:, None] > edges[predicted]).sum(axis=1)
    found: np.ndarray = predicted * (edges.shape[1] + 1) + beyond
    return found


def score_edges(log_likelihood: np.ndarray) -> np.ndarray:
    """Return edges [c, bins − 1] that cut the rows of each predicted class into equal parts.

    They are rounded, so that they tell no row's score.
    """
    classes = log_likelihood.shape[1]
    bins = BINS_OF_TWO if classes == 2 else BINS_OF_MORE
    equal = weighted(log_likelihood, np.full(classes, 1 / classes))
    predicted, sure = equal.argmax(axis=1), equal.max(axis=1)
    steps = np.arange(1, bins) / bins
    found = [
        np.quantile(sure[predicted == k], steps) if (predicted == k).any() else steps
        for k in range(classes)
    ]
    return np.round(found, 3)


def score_bins(held_out: HeldOut, log_likelihood: np.ndarray, rows: np.ndarray) -> ScoreBins:
    """Return the distribution of scores within the classes of some rows of training domains.

    Each domain counts by its rows: a class may be rare in some.  ``log_likelihood`` [n, c] is that
    of all rows.
    """
    edges = score_edges(log_likelihood[rows])
    total = edges.shape[0] * (edges.shape[1] + 1)
    bins, y, domain = bins_of(log_likelihood[rows], edges), held_out.y[rows], held_out.domain[rows]
    shares = np.zeros((total, held_out.classes))
    excess = scale = freedom = 0.0
    sizes: list[np.ndarray] = []
    for k in range(held_out.classes):
        own = y == k
        counts = np.array(
            [np.bincount(bins[own & (domain == d)], minlength=total) for d in np.unique(domain)]
        )
        n = counts.sum(axis=1)
        sizes.append(n)
        if n.sum() < FEWEST:
            continue
        pooled = counts.sum(axis=0) / n.sum()
        shares[:, k] = pooled
        # Pearson's statistic of each domain against the pool it is part of has the expectation
        # (bins − 1)(1 − n / N)(1 + (n − 1) ρ), nearly.
        used = pooled > 0
        for place in np.flatnonzero(n >= FEWEST):
            expected = n[place] * pooled[used]
            pearson = float(((counts[place][used] - expected) ** 2 / expected).sum())
            known = (used.sum() - 1) * (1 - n[place] / n.sum())
            excess += pearson - known
            scale += known * (n[place] - 1)
            freedom += known
    correlation = min(max(excess / scale, 0.0), 1.0) if scale > 0 else 0.0
    errors = np.array(
        [
            (n @ (1 + np.maximum(n - 1, 0) * correlation)) / max(n.sum(), 1) ** 2
            if n.sum() >= FEWEST
            else 0.0
            for n in sizes
        ]
    )
    return ScoreBins(edges, shares, errors, correlation, freedom)


def p_value(bins: ScoreBins, log_likelihood: np.ndarray) -> float:
    """Return the p-value of label shift for new rows with log ℓ [n, c]; see the module."""
    from scipy.stats import f as fisher  # type: ignore[import-untyped]

    n = len(log_likelihood)
    total = len(bins.shares)
    found = class_shares(bins_of(log_likelihood, bins.edges), total)
    known = bins.shares.sum(axis=0) > 0
    # Half a row of each class in each bin: a bin that no training row fell into can occur.
    f = np.where(known, bins.shares + 0.5 / total / max(n, 1), 0)[:, known]
    f = f / f.sum(axis=0)
    shares = mixture_proportions(np.ascontiguousarray(f.T), found)
    present = shares > 1 / n
    f, shares = f[:, present], shares[present] / shares[present].sum()
    error = bins.correlation + bins.errors[known][present]
    mean = f @ shares
    covariance = (np.diag(mean) - np.outer(mean, mean)) / n
    for k, share in enumerate(shares):
        own = np.diag(f[:, k]) - np.outer(f[:, k], f[:, k])
        covariance += share**2 * error[k] * own
    # Shares sum to 1: one bin and one class follow from the others.
    inverse = np.linalg.pinv(covariance[:-1, :-1], hermitian=True)
    design = (f[:, :-1] - f[:, -1:])[:-1]
    target = (found - f[:, -1])[:-1]
    if design.shape[1]:
        gram, moments = design.T @ inverse @ design, design.T @ inverse @ target
        fitted = np.linalg.lstsq(gram, moments, rcond=None)[0]
        target = target - design @ fitted
    statistic = float(target @ inverse @ target)
    freedom = total - f.shape[1]
    return float(fisher.sf(statistic / freedom, freedom, max(bins.freedom, 1.0)))
