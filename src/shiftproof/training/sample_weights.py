"""Weights of training samples: their own, and those of their classes.

With ωᵢ the weight of sample i (1 if none is given), `class_weight="balanced"` multiplies it by

    Ω / (k Ω_c),   Ω = Σᵢ ωᵢ,   Ω_c = Σ of those of class c,

for the k classes among the training samples of a run: all classes then have the same total weight,
and the overall total is unchanged.  Without sample weights this is n / (k n_c), as in scikit-learn.
Held-out domains are not used.
"""

from __future__ import annotations

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.types import BALANCED, UNWEIGHTED
from shiftproof.data import DomainDataset
from shiftproof.data.splits import Split


def balanced_weights(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weights [n], scaled so that all classes y [n] have the same total.

    >>> balanced_weights(np.array([0, 0, 0, 1]), np.ones(4)).round(3).tolist()
    [0.667, 0.667, 0.667, 2.0]
    """
    classes, position = np.unique(y, return_inverse=True)
    totals = np.bincount(position, weight)
    balanced: np.ndarray = weight * (weight.sum() / (len(classes) * totals))[position]
    return balanced


def training_weights(
    dataset: DomainDataset, splits: dict[str, Split], class_weight: str
) -> list[np.ndarray] | None:
    """Return the weights of the training samples of each domain in `splits`, in their order.

    Return None if neither samples nor classes are weighted.
    """
    if not dataset.weighted and class_weight == UNWEIGHTED:
        return None
    pairs = [(d, splits[d.name].in_) for d in dataset.domains if d.name in splits]
    weights = np.concatenate(
        [
            np.ones(len(rows)) if d.weight_array is None else d.weight_array[rows]
            for d, rows in pairs
        ]
    )
    if class_weight == BALANCED:
        labels = np.concatenate([domain.label_array[rows] for domain, rows in pairs])
        weights = balanced_weights(labels, weights)
    return np.split(weights, np.cumsum([len(rows) for _, rows in pairs])[:-1])


def without_weightless(dataset: DomainDataset, splits: dict[str, Split]) -> dict[str, Split]:
    """Return the splits without the training samples of weight 0."""
    remaining = dict(splits)
    for domain in dataset.domains:
        if domain.weight_array is None or domain.name not in splits:
            continue
        split = splits[domain.name]
        weighted = split.in_[domain.weight_array[split.in_] > 0]
        if len(weighted) == 0:
            raise DataError(
                f"every training sample of domain {domain.name!r} has the weight 0; leave the"
                " domain out of the data"
            )
        remaining[domain.name] = split._replace(in_=weighted)
    return remaining
