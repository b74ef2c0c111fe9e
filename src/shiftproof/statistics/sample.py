"""Checked samples of several domains, and log ratios of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.core.errors import DataError

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.intp]
# Number of columns processed at a time.
AT_ONCE = 64


@dataclass(frozen=True)
class Sample:
    """Checked arrays in a canonical order, so that results do not depend on the input order.

    x [n, k] is standardised, without constant columns; y [n] and d [n] are codes from 0; `names`
    are the original numbers of the domains; `shares` [domains] are the weights π_d of the domains,
    and `weights` [n] the weights of the samples, which sum to 1.
    """

    x: Floats
    y: Ints
    d: Ints
    names: tuple[int, ...]
    shares: Floats
    weights: Floats

    @property
    def domains(self) -> int:
        """Return the number of domains."""
        return len(self.shares)

    @property
    def classes(self) -> int:
        """Return the number of classes."""
        return int(self.y.max()) + 1

    def folds(self, count: int, seed: int) -> Ints:
        """Split the samples of each domain, by class, into `count` folds: [n] of 0 … count−1.

        The split depends on the seed and the domain's size, not on its number.
        """
        fold = np.empty(len(self.d), dtype=np.intp)
        for domain in range(self.domains):
            members = np.flatnonzero(self.d == domain)
            rng = np.random.default_rng([seed, len(members)])
            order = np.lexsort((rng.random(len(members)), self.y[members]))
            fold[members[order]] = np.arange(len(members)) % count
        return fold


@dataclass(frozen=True)
class LogRatio:
    """A log ratio for each sample [n], and the correction to add to its mean."""

    values: Floats
    correction: float = 0.0

    def __add__(self, other: LogRatio) -> LogRatio:
        return LogRatio(self.values + other.values, self.correction + other.correction)

    def __sub__(self, other: LogRatio) -> LogRatio:
        return LogRatio(self.values - other.values, self.correction - other.correction)


def stratified_mean(values: Floats, sample: Sample) -> tuple[float, float]:
    """Return Σ_d π_d mean_d(values) and its standard error, for fixed sizes of domains."""
    mean, variance = 0.0, 0.0
    for domain, share in enumerate(sample.shares):
        part = values[sample.d == domain]
        mean += share * part.mean()
        variance += share**2 * part.var(ddof=1) / len(part)
    return float(mean), float(np.sqrt(variance))


def checked(x: ArrayLike, y: ArrayLike | None, d: ArrayLike, balanced: bool) -> Sample:
    """Check the arrays and return them as a `Sample`.

    Without labels, all samples have the same class.
    """
    features, domains = as_table(x), _codes(d, "domains")
    labels = np.zeros_like(domains) if y is None else _codes(y, "labels")
    if not len(features) == len(labels) == len(domains):
        raise DataError(
            f"features, labels and domains have {len(features)}, {len(labels)} and {len(domains)}"
            " entries; they need one each for every sample"
        )
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad):
        raise DataError(
            f"{len(bad)} of {len(features)} rows of features hold NaN or infinity"
            f" (the first is row {bad[0]}); remove or fill them"
        )
    names, sizes = np.unique(np.asarray(d), return_counts=True)
    if len(sizes) < 2:
        raise DataError(f"measuring a shift needs at least two domains, not {len(sizes)}")
    if sizes.min() < 2:
        raise DataError(
            f"domain {names[sizes.argmin()]} has a single sample, too few to estimate a"
            " distribution; leave it out"
        )
    shares = np.full(len(sizes), 1 / len(sizes)) if balanced else sizes / len(domains)
    scaled = _standardised(features)
    order = _canonical_order(scaled, labels)
    return Sample(
        x=scaled[order],
        y=labels[order],
        d=domains[order],
        names=tuple(names.tolist()),
        shares=shares,
        weights=(shares / sizes)[domains[order]],
    )


def as_table(x: ArrayLike) -> Floats:
    """Return features as numbers [n, k]; a single column may have the shape [n]."""
    try:
        features = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("features must be numbers; encode text and categories first") from None
    if features.ndim == 1:
        features = features[:, None]
    if features.ndim != 2:
        raise DataError(
            f"features must be a table [samples, columns], not of shape {features.shape}"
        )
    return features


def _codes(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise DataError(
            f"{name} must be whole numbers in one column, not {array.dtype} of shape {array.shape}"
        )
    return np.unique(array, return_inverse=True)[1].astype(np.intp)


def varying(x: Floats) -> Ints:
    """Return the indices of the columns of x [n, k] that vary by more than rounding errors."""
    # A few columns at a time: allocating copies of all columns would take longer than using them.
    parts = [x[:, start : start + AT_ONCE] for start in range(0, x.shape[1], AT_ONCE)]
    varies = [
        (part - part.mean(axis=0)).std(axis=0)
        > 1e-12 * np.maximum(np.abs(part).max(axis=0, initial=0), 1e-300)
        for part in parts
    ]
    return np.flatnonzero(np.concatenate(varies)) if varies else np.empty(0, dtype=np.intp)


def _standardised(x: Floats) -> Floats:
    """Return the varying columns, with mean 0 and variance 1."""
    columns = x[:, varying(x)]
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    columns -= mean
    columns /= spread
    return columns


def _canonical_order(x: Floats, y: Ints) -> Ints:
    """Return an order that depends only on the content of the samples.

    Samples are sorted by label and then along a fixed random direction, in which different rows
    almost surely differ.
    """
    direction = np.random.default_rng(0).standard_normal(x.shape[1])
    return np.lexsort((np.round(x @ direction, 9), y))


def contingency(codes: Ints, d: Ints) -> Ints:
    """Return the counts of each value in each domain: [values, domains]."""
    domains = int(d.max()) + 1
    flat = np.bincount(codes * domains + d, minlength=(int(codes.max()) + 1) * domains)
    return np.asarray(flat.reshape(-1, domains))


def pair_codes(first: Ints, second: Ints) -> Ints:
    """Return a code [n] for each pair of codes, numbering the pairs that occur from 0."""
    return _codes(first * (int(second.max()) + 1) + second, "pairs")
