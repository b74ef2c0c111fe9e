"""The baseline of a regression model: always predicting the mean of the training domains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import numpy as np

from shiftproof.inference.expected import Expected
from shiftproof.learners.scores import NUMBER_SCORES, badness
from shiftproof.training.outputs import AnyOutputs

MEAN = "Training mean"


class Beside(NamedTuple):
    """The model's score on a domain, and that of always predicting the mean of the others."""

    domain: str
    model: float
    mean: float


def compared_metric(expected: Expected) -> str:
    """Return the metric to compare baselines by: the one shown, or the MAE."""
    return expected.metric if expected.metric in NUMBER_SCORES else "mae"


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
    found = {d: NUMBER_SCORES[metric](*own[:2]) for d, own in expected.numbers.items()}
    return {domain: value for domain, value in found.items() if value is not None}


def worse_than_mean(expected: Expected) -> list[Beside]:
    """Return the domains where the mean of the other domains is better than the model."""
    metric = compared_metric(expected)
    return [b for b in beside_mean(expected) if badness(metric, b.model) > badness(metric, b.mean)]
