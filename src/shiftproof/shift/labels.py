"""The two kinds of labels, classes and numbers: what a diagnosis measures of each.

Everything that differs between them is a method of `ClassLabels` and `NumberLabels`; `labels_of`
chooses.  `drops` describes the loss of held-out domains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import entr, log_softmax, ndtri

from shiftproof.information import Counts, Shift
from shiftproof.information.base import few_rows
from shiftproof.information.dimensions import distances
from shiftproof.shift.diagnosis import (
    Drop,
    Loss,
    MovedClass,
    NumberDrop,
    NumberLabel,
    NumberLoss,
    NumberPrediction,
    Points,
    Prediction,
)
from shiftproof.shift.posteriors import (
    ClassPosteriors,
    LowerBounds,
    NumberPosteriors,
    checked_numbers,
    number_posteriors,
    posteriors,
)
from shiftproof.statistics.auroc import auroc_influence
from shiftproof.statistics.panel import Model, Target, Views
from shiftproof.statistics.sample import Floats, Ints, Sample, checked, contingency
from shiftproof.statistics.stacking import least_squares_weights, log_weights, pooled_logs

# Inputs are unseen if their density ratio p/q is below this value.
UNSEEN = 1 / 20
_REGIONS = ("unseen", "inputs", "meaning")
PARTS, NUMBER_PARTS = ("label_shares", *_REGIONS), ("level", *_REGIONS)

# A metric, and each row's influence on it.
Step = tuple[float, Floats]


@dataclass(eq=False)
class _Labels:
    """The labels of a sample, and once they are fitted, their posteriors."""

    sample: Sample
    posteriors: Any = field(default=None, init=False)

    def shift(self, **settings: Any) -> Shift:
        """Measure the five amounts, with the settings of an `Estimator`."""
        return LowerBounds(posteriors=self.posteriors, **settings).amounts_of(self.sample)

    def domain_accuracy(self) -> float:
        """Return the accuracy on the domain."""
        right = self.posteriors.domain.argmax(axis=1) == self.sample.d
        return float(self.sample.weights @ right)


@dataclass(eq=False)
class ClassLabels(_Labels):
    """Labels that are classes, with their names."""

    names: Sequence[str]
    posteriors: ClassPosteriors = field(init=False)

    @cached_property
    def target(self) -> Target:
        """The label as a target, with the domain as the group."""
        sample = self.sample
        return Target(sample.y, sample.classes, sample.weights, sample.d, sample.domains)

    @cached_property
    def shares(self) -> Floats:
        """The share of each class in each domain: [domains, classes]."""
        counts = contingency(self.sample.y, self.sample.d)
        return np.asarray((counts / counts.sum(axis=0)).T)

    def models(self, x: Floats) -> list[Model]:
        """Return the panel of classifiers on features x [n, k]."""
        return Views.of(x).classifiers()

    def fit(self, seed: int, tick: Callable[[], None]) -> None:
        """Compute the posteriors."""
        self.posteriors = posteriors(self.sample, seed=seed, tick=tick)

    def shift(self, **settings: Any) -> Shift:
        """Measure the five amounts, by counting if there are few distinct rows."""
        if few_rows(self.sample):
            return Counts(**settings).amounts_of(self.sample)
        return super().shift(**settings)

    def measured(self) -> dict[str, Any]:
        """Return the counts, the accuracies, and the shift of each class."""
        sample = self.sample
        return {
            "counts": tuple(tuple(row) for row in contingency(sample.y, sample.d).T.tolist()),
            "prediction": self._prediction(),
            "moved_classes": tuple(self._moved(c, name) for c, name in enumerate(self.names)),
        }

    def _prediction(self) -> Prediction:
        y, weights, mixed = self.sample.y, self.sample.weights, self.posteriors.mixed_label
        rows = np.arange(len(y))
        at_home = self.posteriors.label[rows, self.sample.d]
        return Prediction(
            label=float(weights @ (mixed.argmax(axis=1) == y)),
            label_knowing_domain=float(weights @ (at_home.argmax(axis=1) == y)),
            commonest_label=float(np.bincount(y, weights).max()),
            domain=self.domain_accuracy(),
            uncertainty=float(-weights @ mixed[rows, y]),
        )

    def _moved(self, label: int, name: str) -> MovedClass:
        rows = np.flatnonzero(self.sample.y == label)
        weights = self.sample.weights[rows] / self.sample.weights[rows].sum()
        domains = self.sample.d[rows]
        prior = np.bincount(domains, weights, minlength=self.sample.domains)
        most = float(entr(prior).sum())
        information = within = None
        if (prior > 0).sum() > 1:
            logs = self.posteriors.domain_given_label[rows, domains]
            information = float(np.clip(weights @ (logs - np.log(prior[domains])), 0, most))
            within = information / most
        return MovedClass(name, tuple(self.shares[:, label].tolist()), information, within)

    def apart(self, a: int, b: int) -> float:
        """Return the share of labels that would have to change for equal class shares."""
        return float(np.abs(self.shares[a] - self.shares[b]).sum() / 2)

    def stacked(self, predictions: Floats, rows: Ints) -> Floats:
        """Add log odds of the panel [c, n, C], with weights fitted to its `rows`."""
        log_prior, weights = np.log(self.target.prior), self.sample.weights[rows]
        odds = self.posteriors.panel[:, rows] - log_prior
        a = log_weights(odds, log_prior, self.sample.y[rows], weights)
        return pooled_logs(predictions - log_prior, log_prior, a)

    def corrected(self, without: Floats, here: Ints, others: Ints) -> Floats:
        """Correct predictions of the rows `here` for how class shares differ from `others`."""
        y, classes = self.sample.y, self.target.classes
        shares = np.bincount(y[here], minlength=classes) / len(here)
        others_shares = np.bincount(y[others], self.sample.weights[others], minlength=classes)
        others_shares = others_shares / others_shares.sum()
        # One more row, distributed as in the other domains, so that no class is impossible.
        log_shares = np.log((shares * len(here) + others_shares) / (len(here) + 1))
        return np.asarray(log_softmax(without + log_shares - np.log(others_shares + 1e-9), axis=-1))

    def drop(
        self, domain: str, here: Ints, steps: Sequence[Floats], unseen_share: float, level: float
    ) -> Drop:
        """Return the loss of accuracy and AUROC from the predictions at each step."""
        y = self.sample.y[here]
        right = [(step.argmax(axis=1) == y).astype(float) for step in steps]
        present = np.unique(y)
        by_class = [(right[-1][y == c] - right[0][y == c]).mean() for c in present]
        worst = int(np.argmax(by_class))
        auroc = None
        if len(present) > 1:
            areas = [auroc_influence(np.exp(step), y) for step in steps]
            auroc = Loss(**_losses(areas, PARTS, level, 100))
        accuracy = Loss(**_losses([_mean(share) for share in right], PARTS, level, 100))
        worst_class = (self.names[int(present[worst])], 100 * float(by_class[worst]))
        return Drop(domain, len(here), accuracy, auroc, unseen_share, worst_class)

    def scores(self, predicted: Floats, here: Ints) -> Floats:
        """Return whether the class of each of the rows `here` is predicted."""
        return np.asarray(predicted.argmax(axis=1) == self.sample.y[here], dtype=float)


@dataclass(eq=False)
class NumberLabels(_Labels):
    """Labels that are numbers: standardised y [n], and their original mean and deviation."""

    y: Floats
    mean: float
    unit: float
    posteriors: NumberPosteriors = field(init=False)

    @cached_property
    def target(self) -> Target:
        """The label as a target, with the domain as the group."""
        return Target(self.y, 0, self.sample.weights, self.sample.d, self.sample.domains)

    @cached_property
    def by_domain(self) -> list[Floats]:
        """The standardised labels of each domain."""
        return [self.y[self.sample.d == domain] for domain in range(self.sample.domains)]

    def models(self, x: Floats) -> list[Model]:
        """Return the panel of models of numbers on features x [n, k]."""
        return Views.of(x).regressors()

    def fit(self, seed: int, tick: Callable[[], None]) -> None:
        """Compute the posteriors."""
        self.posteriors = number_posteriors(self.sample, self.y, seed=seed, tick=tick)

    def measured(self) -> dict[str, Any]:
        """Return the number of labels, R², and the distribution in each domain."""
        weights = self.sample.weights
        around = float(weights @ (self.y - weights @ self.y) ** 2)

        def explained(predicted: Floats) -> float:
            return 1 - float(weights @ (self.y - predicted) ** 2) / around

        return {
            "counts": tuple((len(values),) for values in self.by_domain),
            "prediction": NumberPrediction(
                r2=explained(self.posteriors.predicted),
                r2_knowing_domain=explained(self.posteriors.home),
                domain=self.domain_accuracy(),
            ),
            "moved_classes": (),
            "numbers": tuple(_summary(self.mean + self.unit * values) for values in self.by_domain),
        }

    def apart(self, a: int, b: int) -> float:
        """Return the distance W1 of the standardised labels."""
        ranked = [np.sort(self.by_domain[domain])[:, None] for domain in (a, b)]
        return float(distances(*ranked)[0][0])

    def stacked(self, predictions: Floats, rows: Ints) -> Floats:
        """Add predictions [c, n] of the panel, with weights fitted to its `rows`."""
        panel, weights = self.posteriors.panel[:, rows], self.sample.weights[rows]
        return np.asarray(least_squares_weights(panel, self.y[rows], weights) @ predictions)

    def corrected(self, without: Floats, here: Ints, others: Ints) -> Floats:
        """Correct predictions of the rows `here` for the mean of their labels."""
        return np.asarray(without + (self.y[here] - without).mean())

    def drop(
        self, domain: str, here: Ints, steps: Sequence[Floats], unseen_share: float, level: float
    ) -> NumberDrop:
        """Return the loss of R² and MAE from the predictions at each step."""
        y = self.y[here]
        r2 = None
        if np.ptp(y) > 0:
            explained = [percent_explained(y, step) for step in steps]
            r2 = NumberLoss(**_losses(explained, NUMBER_PARTS, level, 1))
        mae = _losses(
            [_mean(-self.unit * np.abs(y - step)) for step in steps], NUMBER_PARTS, level, 1
        )
        # Lower errors are better: the loss is the increase of the error.
        mae |= {name: -mae[name] for name in ("held_out", "trained_with")}
        return NumberDrop(domain, len(here), r2, NumberLoss(**mae), unseen_share)

    def scores(self, predicted: Floats, here: Ints) -> Floats:
        """Return the contributions of the rows `here` to R²; 0 if all their labels are equal."""
        y = self.y[here]
        if not y.var() > 0:
            return np.zeros(len(y))
        return np.asarray(1 - (y - predicted) ** 2 / y.var())


Labels = ClassLabels | NumberLabels


def labels_of(x: Floats, y: np.ndarray, d: np.ndarray, classes: Sequence[str]) -> Labels:
    """Return the labels y [n] of features x [n, k]; without classes, they are numbers."""
    if classes:
        return ClassLabels(checked(x, y, d, balanced=True), classes)
    return NumberLabels(*checked_numbers(x, y, d), float(y.mean()), float(y.std()))


def _summary(values: Floats) -> NumberLabel:
    low, middle, high = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    return NumberLabel(float(values.mean()), float(values.std(ddof=1)), low, middle, high)


def _mean(values: Floats) -> Step:
    return float(values.mean()), values - values.mean()


def percent_explained(y: Floats, predicted: Floats) -> Step:
    """Return R² in percent, and each row's influence on it."""
    squares, around = (y - predicted) ** 2, (y - y.mean()) ** 2
    ratio = squares.mean() / around.mean()
    return float(100 * (1 - ratio)), -100 * (squares - ratio * around) / around.mean()


def _losses(
    steps: Sequence[Step], names: Sequence[str], level: float, unit: float
) -> dict[str, Any]:
    """Return the metric, the loss and its parts from the metric and influences at each step."""
    z = float(ndtri(0.5 + level / 2))

    def points(last: int, first: int) -> Points:
        value = unit * (steps[last][0] - steps[first][0])
        rows = steps[last][1] - steps[first][1]
        half = float(unit * z * rows.std() / np.sqrt(len(rows)))
        return Points(value, (value - half, value + half))

    return {
        "held_out": unit * steps[0][0],
        "trained_with": unit * steps[-1][0],
        "lost": points(len(steps) - 1, 0),
        **{name: points(i + 1, i) for i, name in enumerate(names)},
    }
