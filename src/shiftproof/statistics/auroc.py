"""The AUROC and its sampling error (DeLong et al., 1988), for two classes or more."""

from __future__ import annotations

import numpy as np

from shiftproof.statistics.sample import Floats, Ints


def auroc_influence(q: Floats, y: Ints) -> tuple[float, Floats]:
    """Return the AUROC of probabilities q [n, C], and each row's influence on it [n].

    The AUROC is the one-vs-rest mean over the classes that occur.  That of one class is the mean
    over its rows of the share of other rows below (a tie counts half), and the mean over the other
    rows of the share of its rows above.  The influence of a row is the difference of its share from
    the AUROC, divided by the frequency of its side; influences have the mean 0.

    >>> q = np.array([[1, 0], [0.5, 0.5], [0.5, 0.5]])
    >>> value, influence = auroc_influence(q, np.array([0, 0, 1]))
    >>> value, influence.round(3).tolist()
    (0.75, [0.375, -0.375, 0.0])
    """
    present = np.unique(y)
    value, influence = 0.0, np.zeros(len(y))
    for c in present:
        positive, scores = y == c, q[:, c]
        placed = np.empty(len(y))
        placed[positive] = _share_below(scores[positive], scores[~positive])
        placed[~positive] = 1 - _share_below(scores[~positive], scores[positive])
        area = placed[positive].mean()
        value += area / len(present)
        share = np.where(positive, positive.mean(), 1 - positive.mean())
        influence += (placed - area) / share / len(present)
    return float(value), influence


def _share_below(values: Floats, others: Floats) -> Floats:
    """Return the share of `others` below each value; a tie counts half."""
    ordered = np.sort(others)
    counts = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right")
    return counts / 2 / len(others)


def auroc_variance(q: Floats, y: Ints) -> float:
    """Return DeLong's variance of the AUROC of `auroc_influence`.

    Given the n_k rows of each class k, influences are independent, so it is Σ_k n_k s²_k / n², with
    s²_k the variance of the influences of class k.  For two classes this is DeLong et al. (1988).
    """
    _, influence = auroc_influence(q, y)
    of_classes = [influence[y == c] / len(y) for c in np.unique(y)]
    return float(sum(len(part) * part.var(ddof=1) for part in of_classes if len(part) > 1))
