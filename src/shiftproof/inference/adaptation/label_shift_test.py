"""Test of label shift: do a new site's rows match the training classes in different shares?

Under label shift, the scores at a new site are a mixture of those of the training classes.  Scores
are binned into B bins, by the most probable class at equal shares and its probability.  With f_k
[B] the shares of the bins within class k of the training domains, and q [B] those of n new rows,

    q = Σ_k π_k f_k + error

must hold for some shares π.  The error has three parts: sampling of the new rows, sampling of the
training rows, and variation among sites, since training domains differ within a class, too.  The
last is measured by the correlation ρ of the bins of two rows of the same class and domain: a site's
f_k varies with covariance ρ (diag f_k − f_k f_kᵀ), as Dirichlet shares do.  So the covariance is

    V = (diag q̂ − q̂ q̂ᵀ) / n + Σ_k π_k² (ρ + u_k) (diag f_k − f_k f_kᵀ),

with u_k the same factor for the mean over training domains.  The minimum T of
(q − Fπ)ᵀ V⁻¹ (q − Fπ) over π has, with V known, a χ² distribution with B − c degrees of freedom: an
overidentification test (Hansen, 1982).  But V is only approximate if sites differ: domains may
differ in one direction only, say all scores higher, and then T varies more than χ² does.  So its
degrees of freedom ν are estimated from the training domains (Satterthwaite, 1946).  With z_d =
V^(−½) (q − Fπ) / √(B − c) of each domain, compared with the others, and M the covariance of z, the
means over pairs of domains of |z_d|² |z_e|² and of (z_d · z_e)² estimate (tr M)² and tr M²; ν is
their ratio.  ρ is first estimated by moments within classes, and then multiplied by the mean of
|z_d|², which would be 1 if V were correct.  T / (B − c) is compared with Fisher's F with ν and
(K − 1) ν / r² degrees of freedom: ρ is estimated from K domains, and r is the part of V due to ρ,
averaged over directions.  The rest of V is known (Satterthwaite again).
A small p-value means that the new rows differ from the training domains in more than their shares,
and by more than training domains differ from each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from shiftproof.inference.adaptation.held_out import HeldOut, class_shares
from shiftproof.inference.adaptation.label_shift import weighted
from shiftproof.learners.stacking import mixture_proportions

# Probability bins for each predicted class (ten in all for two classes).
BINS_OF_TWO, BINS_OF_MORE = 5, 3
# Fewest training rows of a class for a score distribution, and of a domain to contribute to ρ.
FEWEST = 10
# Degrees of freedom of a variance that is practically known.
MANY = 1e6


@dataclass(frozen=True)
class ScoreBins:
    """Bins of scores, and their distribution within the classes of the training domains.

    ``edges`` [c, bins − 1] are the bin edges of the probability of each predicted class.
    ``shares`` F [B, c] has columns that sum to 1, or are 0 for a class with too few rows.
    ``errors`` are u [c], and ``correlation`` is ρ, estimated from K ``domains`` with (K − 1) ν
    degrees of ``freedom``.
    """

    edges: np.ndarray
    shares: np.ndarray
    errors: np.ndarray
    correlation: float
    freedom: float
    domains: int

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "edges": self.edges.tolist(),
            "shares": self.shares.tolist(),
            "errors": self.errors.tolist(),
            "correlation": self.correlation,
            "freedom": self.freedom,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], domains: int) -> ScoreBins:
        """Rebuild from JSON values, and the number of domains, which is stored in the record."""
        arrays = {name: np.array(stored[name], float) for name in ("edges", "shares", "errors")}
        rho, freedom = float(stored["correlation"]), float(stored["freedom"])
        return cls(**arrays, correlation=rho, freedom=freedom, domains=domains)


def bins_of(log_likelihood: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bin of each row [n]: its most probable class at equal shares, and how probable."""
    classes = len(edges)
    equal = weighted(log_likelihood, np.full(classes, 1 / classes))
    predicted = equal.argmax(axis=1)
    beyond = (equal.max(axis=1)[:, None] > edges[predicted]).sum(axis=1)
    found: np.ndarray = predicted * (edges.shape[1] + 1) + beyond
    return found


def score_edges(log_likelihood: np.ndarray) -> np.ndarray:
    """Return the edges [c, bins − 1] of equally filled bins for each predicted class.

    The edges are rounded, so that they reveal no row's score.
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
    """Return the distribution of scores within each class, in the given rows of training domains.

    Domains are weighted by their number of rows, because a class may be rare in some.
    ``log_likelihood`` [n, c] covers all rows.
    """
    edges = score_edges(log_likelihood[rows])
    total = edges.shape[0] * (edges.shape[1] + 1)
    numbers, domain = np.unique(held_out.domain[rows], return_inverse=True)
    counts = np.zeros((len(numbers), held_out.classes, total))
    np.add.at(counts, (domain, held_out.y[rows], bins_of(log_likelihood[rows], edges)), 1)
    large = np.flatnonzero(counts.sum(axis=(1, 2)) >= FEWEST)
    apart = []
    for place in large:
        others = ScoreBins(edges, *_distribution(np.delete(counts, place, axis=0)), 0.0, 0)
        if others.shares.any():
            own = counts[place].sum(axis=0)
            z, most, _ = _standardised(others, own / own.sum(), int(own.sum()))
            apart.append(z / np.sqrt(most))
    factor = float(np.mean([z @ z for z in apart])) if apart else 1.0
    freedom = (len(large) - 1) * _effective_freedom(np.array(apart))
    return ScoreBins(edges, *_distribution(counts, factor), freedom, len(large))


def _distribution(counts: np.ndarray, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray, float]:
    """Return F [B, c], u [c] and ρ times `factor` from counts [domains, c, B]; see `ScoreBins`."""
    _, classes, total = counts.shape
    shares = np.zeros((total, classes))
    excess = scale = 0.0
    for k in range(classes):
        n = counts[:, k].sum(axis=1)
        if n.sum() < FEWEST:
            continue
        pooled = counts[:, k].sum(axis=0) / n.sum()
        shares[:, k] = pooled
        # Pearson's statistic of each domain against the pool it is part of has approximately the
        # expectation (bins − 1)(1 − n / N)(1 + (n − 1) ρ).
        used, own = pooled > 0, n >= FEWEST
        expected = n[own, None] * pooled[used]
        pearson = ((counts[own, k][:, used] - expected) ** 2 / expected).sum(axis=1)
        known = (used.sum() - 1) * (1 - n[own] / n.sum())
        excess += float((pearson - known).sum())
        scale += float((known * (n[own] - 1)).sum())
    correlation = min(factor * max(excess / scale, 0.0), 1.0) if scale > 0 else 0.0
    sizes = counts.sum(axis=2)
    all_rows = sizes.sum(axis=0)
    variance = (sizes * (1 + np.maximum(sizes - 1, 0) * correlation)).sum(axis=0)
    errors = np.where(all_rows >= FEWEST, variance / np.maximum(all_rows, 1) ** 2, 0.0)
    return shares, errors, correlation


def _effective_freedom(apart: np.ndarray) -> float:
    """Return ν for the standardised residuals z [K, B] of domains; see the module docstring.

    Three domains that differ in the same direction only:

    >>> _effective_freedom(np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]))
    1.0
    """
    if len(apart) < 2:
        return 1.0
    products, pairs = apart @ apart.T, np.triu_indices(len(apart), 1)
    squares = np.diag(products)
    wide, same = (float(own[pairs].mean()) for own in (np.outer(squares, squares), products**2))
    most = apart.shape[1]
    return float(np.clip(wide / same, 1, most)) if same > 0 else float(most)


class _Residual(NamedTuple):
    """z = V^(−½) (q − Fπ) [B] for the π that minimises |z|, B − c, and the part r of V due to ρ."""

    apart: np.ndarray
    most: int
    part: float


def _standardised(bins: ScoreBins, found: np.ndarray, n: int) -> _Residual:
    """Return the standardised residual of the bins q [B] of n rows from the fitted mixture.

    Only classes with a score distribution and an estimated share above 1/n enter the mixture.
    """
    total = len(bins.shares)
    known = bins.shares.sum(axis=0) > 0
    # Smooth the shares: bins without training rows can occur at the new site.
    f = np.where(known, bins.shares + 0.5 / total / max(n, 1), 0)[:, known]
    f = f / f.sum(axis=0)
    shares = mixture_proportions(np.ascontiguousarray(f.T), found)
    present = shares > 1 / n
    f, shares = f[:, present], shares[present] / shares[present].sum()
    mean = f @ shares
    covariance = (np.diag(mean) - np.outer(mean, mean)) / n
    differing = np.zeros_like(covariance)
    for k, (share, error) in enumerate(zip(shares, bins.errors[known][present], strict=True)):
        own = share**2 * (np.diag(f[:, k]) - np.outer(f[:, k], f[:, k]))
        covariance += error * own
        differing += bins.correlation * own
    covariance += differing
    # Scale the bins by about their standard deviations, so that rounding errors are similar.
    # Shares sum to 1, so one direction has no variance, and one class follows from the others.
    unit = 1 / np.sqrt(mean)
    values, vectors = np.linalg.eigh(unit[:, None] * covariance * unit)
    vectors = vectors[:, 1:] / np.sqrt(values[1:]) @ vectors[:, 1:].T
    apart = vectors @ (unit * (found - mean))
    design = vectors @ (unit[:, None] * (f[:, :-1] - f[:, -1:]))
    if design.shape[1]:
        apart = apart - design @ np.linalg.lstsq(design, apart, rcond=None)[0]
    part = np.trace(vectors @ (unit[:, None] * differing * unit) @ vectors) / (total - 1)
    return _Residual(apart, total - f.shape[1], float(part))


def p_value(bins: ScoreBins, log_likelihood: np.ndarray) -> float:
    """Return the p-value of label shift for new rows with log ℓ [n, c] (module docstring)."""
    from scipy.stats import f as fisher  # type: ignore[import-untyped]

    found = class_shares(bins_of(log_likelihood, bins.edges), len(bins.shares))
    apart, most, part = _standardised(bins, found, len(log_likelihood))
    others = max(bins.domains - 1, 1)
    freedom = float(np.clip(bins.freedom / others, 1, most))
    known = min(others * freedom / max(part, 1e-3) ** 2, MANY)
    return float(fisher.sf(apart @ apart / most, freedom, known))
