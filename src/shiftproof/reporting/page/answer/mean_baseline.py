"""The baseline of a regression model: always predicting the mean of the training domains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import numpy as np

from shiftproof.inference.expected import Expected
from shiftproof.metrics import METRICS
from shiftproof.metrics.outputs import AnyOutputs

MEAN = "Training mean"


class Beside(NamedTuple):
    """The model's score on a domain, and that of always predicting the mean of the others."""

    domain: str
    model: float
    mean: float


def compared_metric(expected: Expected) -> str:
    """Return the metric to compare baselines by: the one shown, or the MAE."""
    # A constant has no calibration slope, and the mean of the others no interval.
    is_score = not METRICS.get(expected.metric).has_target
    return expected.metric if is_score else "mae"


def mean_answers(expected: Expected) -> Expected:
    """Return the outputs of always predicting the mean of the other domains, weighted equally.

    Every domain is held out in turn, so the other domains are those the model was trained on.
    """
    found: Mapping[str, AnyOutputs] = {
        domain: own._replace(
            predicted=np.full(
                len(own.labels),
                fmean(
                    float(other.labels.mean())
                    for name, other in expected.numbers.items()
                    if name != domain
                ),
            )
        )
        for domain, own in expected.numbers.items()
    }
    return replace(expected, outputs=found, metric=compared_metric(expected), at_least=None)


def beside_mean(expected: Expected) -> list[Beside]:
    """Compare the model with the mean of the other domains, wherever the score is defined."""
    metric = compared_metric(expected)
    model, mean = values_of(expected, metric), values_of(mean_answers(expected), metric)
    return [Beside(domain, model[domain], mean[domain]) for domain in model if domain in mean]


def values_of(expected: Expected, metric: str) -> dict[str, float]:
    """Return a score for each domain where it is defined."""
    score = METRICS.get(metric).score
    values = {domain: score(own) for domain, own in expected.numbers.items()}
    return {domain: value for domain, value in values.items() if value is not None}


def worse_than_mean(expected: Expected) -> list[Beside]:
    """Return the domains where the mean of the other domains is better than the model."""
    loss = METRICS.get(compared_metric(expected)).loss
    return [b for b in beside_mean(expected) if loss(b.model) > loss(b.mean)]
