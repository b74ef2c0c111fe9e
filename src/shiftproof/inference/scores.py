"""Scores of probabilities against labels: the numbers of a report card.

All are scikit-learn's.  What is defined for two classes is the plain mean over the classes that
occur (macro), each against the rest.  A score that the labels leave undefined is None: the AUROC of
a domain with one class, say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np

# No probability counts as less in the log loss: one certain error must not be infinite.
SMALLEST = 1e-15
# Scores of which less is better.
LOSSES = ("log_loss", "brier")


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    """Return the scores of probabilities [n, classes] for labels [n], by name.

    >>> found = scores(np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]), np.array([0, 0, 1]))
    >>> found["auroc"], round(found["accuracy"], 3), round(found["log_loss"], 3)
    (1.0, 0.667, 0.459)
    """
    from sklearn.metrics import (  # type: ignore[import-untyped]
        accuracy_score,
        average_precision_score,
        brier_score_loss,
        f1_score,
        log_loss,
        recall_score,
        roc_auc_score,
    )

    classes = np.arange(probabilities.shape[1])
    predicted = probabilities.argmax(axis=1)
    present = np.unique(labels)
    likely = np.clip(probabilities, SMALLEST, 1)
    likely = likely / likely.sum(axis=1, keepdims=True)
    return {
        "accuracy": float(accuracy_score(labels, predicted)),
        "balanced_accuracy": float(
            recall_score(labels, predicted, labels=present, average="macro", zero_division=0)
        ),
        "auroc": _by_class(roc_auc_score, probabilities, labels),
        "average_precision": _by_class(average_precision_score, probabilities, labels),
        "f1": float(f1_score(labels, predicted, labels=present, average="macro", zero_division=0)),
        "log_loss": float(log_loss(labels, likely, labels=classes)),
        "brier": float(brier_score_loss(labels, likely, labels=classes, scale_by_half=False)),
        "commonest_class": float(np.bincount(labels).max() / len(labels)),
    }


def mean_scores(of_domains: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the mean of each score over the domains where it is defined."""
    found: dict[str, float | None] = {}
    for name in dict.fromkeys(name for own in of_domains for name in own):
        defined = [value for own in of_domains if (value := own.get(name)) is not None]
        found[name] = fmean(defined) if defined else None
    return found


def worst_scores(of_domains: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the worst of each score over the domains where it is defined."""
    found: dict[str, float | None] = {}
    for name in dict.fromkeys(name for own in of_domains for name in own):
        defined = [value for own in of_domains if (value := own.get(name)) is not None]
        found[name] = (max if name in LOSSES else min)(defined, default=None)
    return found


def _by_class(
    score: Callable[[np.ndarray, np.ndarray], float], probabilities: np.ndarray, labels: np.ndarray
) -> float | None:
    """Return the mean over the classes that occur, each against the rest, or None if one does."""
    present = np.unique(labels)
    if len(present) == 1:
        return None
    return float(np.mean([score(labels == k, probabilities[:, k]) for k in present]))
