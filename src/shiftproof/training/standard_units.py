"""Numeric labels in standard units: mean 0 and deviation 1, with equal weight for each domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np


def standard_units(
    labels: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each target, with equal weight for each domain.

    Within a domain, samples are weighted by `weights`, if given.

    >>> standard_units([np.array([0.0, 2.0]), np.array([5.0, 5.0, 5.0])])
    ((3.0,), (2.1213203435596424,))
    >>> standard_units([np.array([0.0, 2.0])], [np.array([3.0, 1.0])])[0]
    (0.5,)
    """
    centers, scales = [], []
    for own in zip(*(_columns(part) for part in labels), strict=True):
        center = _mean_of_means(own, weights)
        variance = _mean_of_means([np.square(part - center) for part in own], weights)
        centers.append(center)
        scales.append(math.sqrt(variance) or 1.0)
    return tuple(centers), tuple(scales)


def _mean_of_means(parts: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None) -> float:
    if weights is None:
        return fmean(float(part.mean()) for part in parts)
    pairs = zip(parts, weights, strict=True)
    return fmean(float(np.average(part, weights=weight)) for part, weight in pairs)


def _columns(labels: np.ndarray) -> np.ndarray:
    """Return the labels with one row per target, [targets, n]."""
    return np.ascontiguousarray(labels.reshape(len(labels), -1).T)
