"""The best constant prediction on each held-out domain, which a model should beat.

A classifier is compared with always answering the commonest class of the domain itself, and a
regression model with the mean label of the other domains, which it was trained on.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import numpy as np

from shiftproof.inference.expected import Expected
from shiftproof.metrics import METRICS
from shiftproof.metrics.outputs import AnyOutputs


class Beside(NamedTuple):
    """The score of the model on a domain and that of a constant, which is a class or the mean."""

    domain: str
    model: float
    constant: float
    name: str
    behind: float

    @property
    def worse(self) -> bool:
        """Whether the constant is better than the model."""
        return self.behind > 0


def compared_metric(expected: Expected) -> str:
    """Return the metric to compare with: accuracy or, of numbers, the one shown or the MAE."""
    # A constant has no calibration slope, and the mean of the others no interval.
    if not expected.numbers:
        return "accuracy"
    return "mae" if METRICS.get(expected.metric).has_target else expected.metric


def beside_constant(expected: Expected) -> list[Beside]:
    """Compare the model with a constant on each held-out domain where the score is defined."""
    metric = METRICS.get(compared_metric(expected))
    constants = constant_answers(expected).outputs
    compared = []
    for domain, outputs in expected.outputs.items():
        model = metric.score(outputs)
        constant = metric.score(constants[domain]) if domain in constants else None
        if model is not None and constant is not None:
            behind = metric.loss(model) - metric.loss(constant)
            name = "the mean"
            if domain in expected.of_classes:
                name = class_name(expected.classes, int(np.bincount(outputs.labels).argmax()))
            compared.append(Beside(domain, model, constant, name, behind))
    return compared


def constant_answers(expected: Expected) -> Expected:
    """Return the outputs of always predicting the constant, on each held-out domain."""
    outputs: dict[str, AnyOutputs] = {}
    for domain, classes in expected.of_classes.items():
        commonest = np.bincount(classes.labels).argmax()
        answer = np.arange(classes.probabilities.shape[1]) == commonest
        answers = np.tile(answer.astype(np.float64), (len(classes.labels), 1))
        outputs[domain] = classes._replace(probabilities=answers)
    means = {domain: float(classes.labels.mean()) for domain, classes in expected.numbers.items()}
    for domain, numbers in expected.numbers.items():
        if others := [mean for name, mean in means.items() if name != domain]:
            answers = np.full(len(numbers.labels), fmean(others))
            outputs[domain] = numbers._replace(predicted=answers)
    return replace(expected, outputs=outputs, metric=compared_metric(expected), at_least=None)


def class_name(classes: tuple[str, ...], code: int) -> str:
    """Return the name of a class, or its number if names are unknown."""
    return classes[code] if classes else str(code)
