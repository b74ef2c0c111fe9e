"""Nearest-neighbour estimator: the frequency of a sample's own domain among its neighbours.

For discrete D (Ross, 2014), with ρ the distance from x to its k-th neighbour of the same domain and
m the number of samples of any domain within ρ,

    log p(d|x)/p(d) ≈ ψ(k) − ψ(m) + ψ(n) − ψ(n_d).

The same estimator gives I(X,Y;D) if the label is one more coordinate and samples of other classes
are infinitely far.  The concept shift follows Mesner and Shalizi (2019): in the ball up to the k-th
neighbour of the same domain and label,

    log p(y|x,d)/p(y|x) ≈ ψ(k) − ψ(m_d) − ψ(m_y) + ψ(m),

where m_d is the count of the domain, m_y that of the label and m that of all samples; with one ball
for all four counts, their errors cancel.  With ties (features with few values), k becomes the
number of such neighbours within that distance, as in Gao et al. (2017).  If the weights of domains
differ from their sizes, counts are weighted sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma  # type: ignore[import-untyped]
from sklearn.neighbors import KDTree  # type: ignore[import-untyped]

from shiftproof.core.errors import InvalidValue
from shiftproof.information.base import Estimator, Parts
from shiftproof.information.experts import principal_components
from shiftproof.information.no_shift import exact_p_values
from shiftproof.information.sample import Floats, Ints, LogRatio, Sample

# In more dimensions, all samples are at similar distances.
COLUMNS = 6


@dataclass(frozen=True, kw_only=True)
class Neighbours(Estimator):
    """Counts of domains and labels among the nearest neighbours, for few columns."""

    neighbours: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours < 1:
            raise InvalidValue(f"`neighbours` must be at least 1, not {self.neighbours}")

    method = "nearest neighbours"

    def assumptions(self, sample: Sample) -> tuple[str, ...]:
        """Return the assumptions of the estimates."""
        return (
            f"the shares of domains and labels are nearly constant within the distance of"
            f" {self.neighbours} neighbours; otherwise the values are too small",
        )

    def covariate_part(self, sample: Sample) -> LogRatio:
        """Return log p(d|x)/p(d)."""
        x = _metric(sample)
        return self._widened(lambda k: _covariate(sample, x, k), sample)

    def parts(self, sample: Sample) -> Parts:
        """Return all log ratios."""
        x = _metric(sample)
        return Parts(
            covariate=self.covariate_part(sample),
            concept=self._widened(lambda k: _joint(sample, x, k)[1], sample),
            joint=self._widened(lambda k: _joint(sample, x, k)[0], sample),
            p_values=self._p_values(sample),
        )

    def _p_values(self, sample: Sample) -> dict[str, float]:
        """Return all p-values but the concept shift's, which needs classifiers: see CrossFitted."""
        if not self.permutations:
            return {}
        return exact_p_values(self.functions(sample.x), sample, self.permutations, self.seed)

    def _widened(self, log_ratio: Callable[[int], Floats], sample: Sample) -> LogRatio:
        """Return the log ratio, corrected for smoothing by a second estimate with 3k neighbours.

        A ball of k neighbours has a radius of order k^(1/dims), and smoothing over it lowers the
        estimate by about the square of the radius, c·k^(2/dims); with 3k neighbours, by 3^(2/dims)
        times as much.
        """
        near, far = log_ratio(self.neighbours), log_ratio(3 * self.neighbours)
        lost = (near - far) / (3 ** (2 / max(1, sample.x.shape[1])) - 1)
        correction = float(lost @ sample.weights)
        # The correction varies between samples, so its variance is included.
        return LogRatio(near + lost - correction, correction)


def _covariate(sample: Sample, x: Floats, neighbours: int) -> Floats:
    """Return log p(d|x)/p(d): [n]."""
    count = counts(x, sample.d, sample.domains, radii(x, sample.d, neighbours))
    same = count[np.arange(len(x)), sample.d]
    return np.asarray(digamma(same) - _log_count(count, sample) + _log_size(sample))


def _joint(sample: Sample, x: Floats, neighbours: int) -> tuple[Floats, Floats]:
    """Return log p(d|x,y)/p(d) and log p(y|x,d)/p(y|x), both from balls within (y, d): [n]."""
    cell = sample.y * sample.domains + sample.d
    own = np.arange(len(sample.d))
    cells = sample.classes * sample.domains
    count = counts(x, cell, cells, radii(x, cell, neighbours))
    count = count.reshape(len(x), sample.classes, sample.domains)
    in_cell = count[own, sample.y, sample.d]
    in_domain = count[own, :, sample.d].sum(axis=1)
    # The only sample of its label and domain has no neighbours: its log ratio is 0.
    alone = in_cell == 0
    cell_share = digamma(np.maximum(in_cell, 1)) - _log_count(count[own, sample.y], sample)
    domain_share = digamma(np.maximum(in_domain, 1)) - _log_count(count.sum(axis=1), sample)
    joint = np.where(alone, 0, cell_share + _log_size(sample))
    return joint, np.where(alone, 0, cell_share - domain_share)


def radii(x: Floats, cell: Ints, neighbours: int) -> Floats:
    """Return the distance [n] to the k-th neighbour in the sample's own cell (maximum norm).

    In a cell of fewer than k + 1 samples, k is the number of other samples.
    """
    found = np.zeros(len(x))
    for value in np.unique(cell):
        members = np.flatnonzero(cell == value)
        count = min(neighbours, len(members) - 1)
        distances, _ = KDTree(x[members], metric="chebyshev").query(x[members], count + 1)
        found[members] = distances[:, -1]
    # Rounding must not exclude the k-th neighbour itself.
    return found * (1 + 1e-10)


def counts(x: Floats, cell: Ints, cells: int, radius: Floats) -> Ints:
    """Return the number of samples of each cell within each sample's radius: [n, cells].

    The sample itself is not counted.
    """
    found = np.zeros((len(x), cells), dtype=np.intp)
    for value in np.unique(cell):
        tree = KDTree(x[cell == value], metric="chebyshev")
        found[:, value] = tree.query_radius(x, radius, count_only=True)
    found[np.arange(len(x)), cell] -= 1
    return found


def _metric(sample: Sample) -> Floats:
    """Return the features in coordinates with equal variance in all directions."""
    columns = sample.x.shape[1]
    if columns > COLUMNS:
        raise InvalidValue(
            f"nearest neighbours work for at most {COLUMNS} columns, not {columns};"
            " use CrossFitted, or project the features first"
        )
    if columns == 0:
        return np.zeros((len(sample.d), 1))
    return principal_components(sample.x, columns)


def _log_count(count: Ints, sample: Sample) -> Floats:
    """Return ψ of the weighted sum over domains of the counts [n, domains]: [n].

    ψ(m) is log m minus the mean effect of sampling noise; a weighted sum varies like a count of its
    effective size.
    """
    weight = sample.shares / np.bincount(sample.d) * len(sample.d)
    total = np.maximum(count @ weight, 1e-300)
    effective = np.maximum(total**2 / np.maximum(count @ weight**2, 1e-300), 1e-300)
    return np.asarray(np.log(total) + digamma(effective) - np.log(effective))


def _log_size(sample: Sample) -> Floats:
    """Return ψ(n) − ψ(n_d) of each sample's domain."""
    sizes = np.bincount(sample.d)
    return np.asarray((digamma(len(sample.d)) - digamma(sizes))[sample.d])
