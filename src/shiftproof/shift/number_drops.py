"""Measure how much R² and MAE a held-out domain loses if the label is a number, and why.

As in `drops`, the predictions of a model without domain t are replaced step by step by those of a
model with t, so the parts add up to the loss.  Only the first step differs:

1. level: add a constant to the predictions, so that their mean is that of the labels of t.

Then follow *unseen* inputs, *rarer* inputs and *meaning*.  R² is 1 − Σ(y − ŷ)² / Σ(y − ȳ_t)² with
the mean of t itself: below 0, the mean of t would predict t better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri  # type: ignore[import-untyped]

from shiftproof.information.sample import Floats, Sample
from shiftproof.shift.drops import MOST_DOMAINS, RARER, UNSEEN, Points
from shiftproof.shift.number_posteriors import NumberPosteriors
from shiftproof.shift.panel import Views
from shiftproof.shift.regressors import Regressor, mixing, regressors

NUMBER_PARTS = ("level", "unseen", "inputs", "meaning")


@dataclass(frozen=True)
class NumberLoss:
    """A metric on one domain, trained without and with it, and the parts of the loss.

    R² is in percent and its parts in points; MAE and its parts have the label's unit.
    """

    held_out: float
    trained_with: float
    lost: Points
    level: Points
    unseen: Points
    inputs: Points
    meaning: Points


@dataclass(frozen=True)
class NumberDrop:
    """The loss of one held-out domain; `unseen_share` of its rows are unlike all training rows.

    `r2` is None for a domain whose labels are all equal.
    """

    domain: str
    rows: int
    r2: NumberLoss | None
    mae: NumberLoss
    unseen_share: float


def number_drops(
    sample: Sample,
    y: Floats,
    found: NumberPosteriors,
    domains: Sequence[str],
    *,
    unit: float,
    level: float,
) -> tuple[NumberDrop, ...]:
    """Return the loss of each held-out domain, for the `MOST_DOMAINS` largest domains.

    y [n] are standardised labels, and `unit` is their standard deviation.
    """
    models = regressors(Views.of(sample.x))
    chosen = np.sort(np.argsort(-np.bincount(sample.d), kind="stable")[:MOST_DOMAINS])
    return tuple(_drop(int(t), models, sample, y, found, domains, unit, level) for t in chosen)


def _drop(
    t: int,
    models: Sequence[Regressor],
    sample: Sample,
    y: Floats,
    found: NumberPosteriors,
    domains: Sequence[str],
    unit: float,
    level: float,
) -> NumberDrop:
    here, others = np.flatnonzero(sample.d == t), np.flatnonzero(sample.d != t)
    own = y[here]
    a = mixing(found.panel[:, others], y[others], sample.weights[others])
    without = a @ np.stack([predict(y, sample.weights, others, here) for predict in models])
    q = np.exp(found.domain[here, t])
    ratio = (1 - q) / np.maximum((sample.domains - 1) * q, 1e-12)
    steps = [without, without + (own - without).mean()]
    for rows in (ratio < UNSEEN, (ratio >= UNSEEN) & (ratio < RARER), ratio >= RARER):
        steps.append(np.where(rows, found.home[here], steps[-1]))
    mae = [_mean(-unit * np.abs(own - step)) for step in steps]
    r2 = None
    if np.ptp(own) > 0:
        r2 = number_loss([_percent_explained(own, step) for step in steps], level)
    return NumberDrop(
        domain=domains[t],
        rows=len(here),
        r2=r2,
        # Lower errors are better: the loss is the increase of the error.
        mae=_errors(number_loss(mae, level)),
        unseen_share=float((ratio < UNSEEN).mean()),
    )


def _mean(values: Floats) -> tuple[float, Floats]:
    return float(values.mean()), values - values.mean()


def _percent_explained(y: Floats, predicted: Floats) -> tuple[float, Floats]:
    """Return R² in percent, and each row's influence on it."""
    squares, around = (y - predicted) ** 2, (y - y.mean()) ** 2
    ratio = squares.mean() / around.mean()
    return float(100 * (1 - ratio)), -100 * (squares - ratio * around) / around.mean()


def number_loss(steps: Sequence[tuple[float, Floats]], level: float) -> NumberLoss:
    """Return the loss and its parts from the metric and influences at each step."""
    z = float(ndtri(0.5 + level / 2))

    def points(last: int, first: int) -> Points:
        value = steps[last][0] - steps[first][0]
        rows = steps[last][1] - steps[first][1]
        half = float(z * rows.std() / np.sqrt(len(rows)))
        return Points(value, (value - half, value + half))

    parts = {name: points(i + 1, i) for i, name in enumerate(NUMBER_PARTS)}
    return NumberLoss(steps[0][0], steps[-1][0], points(len(steps) - 1, 0), **parts)


def _errors(loss: NumberLoss) -> NumberLoss:
    """Convert the loss of a negated error to one with the error itself as the metric."""
    parts = {name: getattr(loss, name) for name in NUMBER_PARTS}
    return NumberLoss(-loss.held_out, -loss.trained_with, loss.lost, **parts)


def points_of_r2(sample: Sample, y: Floats) -> Callable[[Floats], Floats]:
    """Return a function of x [n, k]: each row's contribution [n] to R² of its held-out domain."""
    spread = np.array([y[sample.d == t].var() for t in range(sample.domains)])

    def held_out(x: Floats) -> Floats:
        models = regressors(Views.of(x))[:2]  # linear and quadratic: fast enough to repeat
        found = np.zeros(len(y))
        for t in np.flatnonzero(spread > 0):
            here, others = np.flatnonzero(sample.d == t), np.flatnonzero(sample.d != t)
            parts = [predict(y, sample.weights, others, here) for predict in models]
            found[here] = 1 - (y[here] - np.mean(parts, axis=0)) ** 2 / spread[t]
        return found

    return held_out
