"""Measure how much accuracy and AUROC, or R² and MAE, a held-out domain loses, and why.

For each domain t, one model is trained without t, and one with t that knows the domain, as at a
site that has contributed data (both predict rows that they were not trained on).  The loss of t
from being held out is split as in DISDE (Cai, Namkoong and Yadlowsky, 2023), by where the inputs of
t lie.  Let p/q be the density of an input in the other domains over that in t, which follows from
the posterior of the domain:

    p/q = (1 − q(t|x)) / ((m − 1) q(t|x)).

Rows of t are *unseen* (p/q < 1/20: hardly any such input was trained on), *rarer* (< 1/2), or
*shared*.  The predictions of the model without t are replaced, in this order:

1. label shares: by its own predictions, corrected to the label shares of t;
2. unseen regions: by the predictions of the model with t, where rows are unseen;
3. inputs: the same where rows are rarer;
4. meaning: the same where rows are shared.  Such inputs are not rare in the other domains, so a
   gain from training on t means that P(Y|X) differs.

The part of each step is the change it causes, so the parts add up to the loss.

If the label is a number, the loss is one of R² and MAE.  Only the first step differs:

1. level: add a constant to the predictions, so that their mean is that of the labels of t.

R² is 1 − Σ(y − ŷ)² / Σ(y − ȳ_t)² with
the mean of t itself: below 0, the mean of t would predict t better.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax, ndtri  # type: ignore[import-untyped]
from scipy.stats import rankdata  # type: ignore[import-untyped]

from shiftproof.core.cores import side_by_side
from shiftproof.information.sample import Floats, Ints, Sample
from shiftproof.shift.panel import Regressor, Task, Views, mixing, pooled, quiet, regressors
from shiftproof.shift.posteriors import NumberPosteriors, Posteriors, weigh

# Inputs are unseen, or rarer, if their density ratio p/q is below these values.
UNSEEN, RARER = 1 / 20, 1 / 2
# The most domains that are held out: the largest ones.
MOST_DOMAINS = 10
# The number of columns to try changing, and the most columns of a table for these trials.
TRIED, MOST_COLUMNS = 3, 64
_REGIONS = ("unseen", "inputs", "meaning")
PARTS, NUMBER_PARTS = ("label_shares", *_REGIONS), ("level", *_REGIONS)

# A metric, and each row's influence on it.
Step = tuple[float, Floats]


@dataclass(frozen=True)
class Points:
    """A difference in percentage points, with its interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class _AnyLoss:
    held_out: float
    trained_with: float
    lost: Points


@dataclass(frozen=True)
class Loss(_AnyLoss):
    """A metric on one domain in percent, trained without and with it, and the parts of the loss."""

    label_shares: Points
    unseen: Points
    inputs: Points
    meaning: Points


@dataclass(frozen=True)
class NumberLoss(_AnyLoss):
    """A metric on one domain, trained without and with it, and the parts of the loss.

    R² is in percent and its parts in points; MAE and its parts have the label's unit.
    """

    level: Points
    unseen: Points
    inputs: Points
    meaning: Points


@dataclass(frozen=True)
class Drop:
    """The loss of one held-out domain; `unseen_share` of its rows are unlike all training rows.

    `worst_class` is the class that loses the most accuracy, and its loss in points.
    """

    domain: str
    rows: int
    accuracy: Loss
    auroc: Loss | None
    unseen_share: float
    worst_class: tuple[str, float]


@dataclass(frozen=True)
class ColumnTrial:
    """The mean gain of held-out domains from changing one column, in points of accuracy or R².

    `change` is `drop`, or `rank`, which replaces values by their rank within each domain.
    """

    column: str
    change: str
    gain: Points

    @property
    def helps(self) -> bool:
        """Whether the interval of the gain is above zero."""
        return self.gain.interval[0] > 0


def drops_of(
    sample: Sample,
    found: Posteriors,
    domains: Sequence[str],
    classes: Sequence[str],
    *,
    level: float,
) -> tuple[Drop, ...]:
    """Return the loss of each held-out domain, for the `MOST_DOMAINS` largest domains."""
    views = Views.of(sample.x)
    task = Task(sample.y, sample.classes, sample.weights, sample.d, sample.domains)
    with quiet():
        return tuple(
            side_by_side(
                [
                    functools.partial(_drop, t, views, task, sample, found, domains, classes, level)
                    for t in _largest(sample)
                ]
            )
        )


def _drop(
    t: int,
    views: Views,
    task: Task,
    sample: Sample,
    found: Posteriors,
    domains: Sequence[str],
    classes: Sequence[str],
    level: float,
) -> Drop:
    here, others = np.flatnonzero(sample.d == t), np.flatnonzero(sample.d != t)
    y = sample.y[here]
    log_prior = np.log(task.prior)
    a = weigh(
        found.panel[:, others] - log_prior, log_prior, sample.y[others], sample.weights[others]
    )
    alone = np.stack([predict(task, others, here) for predict in pooled(views)])
    without = log_softmax(log_prior + np.tensordot(a, alone - log_prior, axes=1), axis=-1)
    shares = np.bincount(y, minlength=task.classes) / len(y)
    others_shares = np.bincount(sample.y[others], sample.weights[others], minlength=task.classes)
    others_shares = others_shares / others_shares.sum()
    # One more row, distributed as in the other domains, so that no class is impossible.
    lean = np.log((shares * len(y) + others_shares) / (len(y) + 1))
    corrected = log_softmax(without + lean - np.log(others_shares + 1e-9), axis=-1)
    ratio = _density_ratio(found.domain[here, t], sample.domains)
    steps = _by_region([without, corrected], found.home[here], ratio)
    right = [(step.argmax(axis=1) == y).astype(float) for step in steps]
    by_class = [(right[-1][y == c] - right[0][y == c]).mean() for c in np.unique(y)]
    worst = int(np.argmax(by_class))
    auroc = None
    if len(np.unique(y)) > 1:
        auroc = _loss([ranking(np.exp(step), y) for step in steps], level)
    return Drop(
        domain=domains[t],
        rows=len(here),
        accuracy=_loss([_mean(each) for each in right], level),
        auroc=auroc,
        unseen_share=float((ratio < UNSEEN).mean()),
        worst_class=(classes[int(np.unique(y)[worst])], 100 * float(by_class[worst])),
    )


def ranking(q: Floats, y: Ints) -> Step:
    """Return the AUROC of probabilities q [n, C], and each row's influence on it (DeLong, 1988).

    With more than two classes, it is the one-vs-rest mean over the classes that occur.
    """
    present = [1] if q.shape[1] == 2 else [c for c in np.unique(y) if (y == c).any()]
    value, influence = 0.0, np.zeros(len(y))
    for c in present:
        own = y == c
        scores = q[:, c]
        ranks = rankdata(scores)
        placed = np.empty(len(y))
        placed[own] = (ranks[own] - rankdata(scores[own])) / (~own).sum()
        placed[~own] = 1 - (ranks[~own] - rankdata(scores[~own])) / own.sum()
        area = placed[own].mean()
        value += area / len(present)
        influence += (placed - area) / np.where(own, own.mean(), 1 - own.mean()) / len(present)
    return float(value), influence


def _largest(sample: Sample) -> list[int]:
    """Return the `MOST_DOMAINS` largest domains, in their order."""
    order = np.argsort(-np.bincount(sample.d), kind="stable")
    return [int(t) for t in np.sort(order[:MOST_DOMAINS])]


def _density_ratio(log_domain: Floats, domains: int) -> Floats:
    """Return p/q of rows of a domain from log q(t|x) [n]."""
    q = np.exp(log_domain)
    return np.asarray((1 - q) / np.maximum((domains - 1) * q, 1e-12))


def _by_region(steps: Sequence[Floats], inside: Floats, ratio: Floats) -> list[Floats]:
    """Add a step for each region, where the predictions are replaced by `inside`."""
    found = list(steps)
    regions = (ratio < UNSEEN, (ratio >= UNSEEN) & (ratio < RARER), ratio >= RARER)
    for rows in regions:
        found.append(np.where(rows if inside.ndim == 1 else rows[:, None], inside, found[-1]))
    return found


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


def _loss(steps: Sequence[Step], level: float) -> Loss:
    return Loss(**_losses(steps, PARTS, level, 100))


def number_loss(steps: Sequence[Step], level: float) -> NumberLoss:
    """Return the loss and its parts from the metric and influences at each step."""
    return NumberLoss(**_losses(steps, NUMBER_PARTS, level, 1))


def column_trials(
    sample: Sample,
    columns: Sequence[int],
    names: Sequence[str],
    held_out: Callable[[Floats], Floats],
    *,
    level: float,
) -> tuple[ColumnTrial, ...]:
    """Measure the held-out gain from dropping a column, or from its ranks within domains.

    `held_out` maps features x [n, k] to the score of each row [n]; the score of a domain is the
    mean over its rows.  The interval is adjusted for the number of trials.
    """
    # With more columns, the sample may hold their leading components instead.
    if not 2 <= len(names) <= MOST_COLUMNS or not len(columns):
        return ()
    before = held_out(sample.x)
    tried = list(columns)[:TRIED]
    z = float(ndtri(1 - (1 - level) / 2 / (2 * len(tried))))
    found = []
    for column in tried:
        ranked = sample.x.copy()
        for d in range(sample.domains):
            own = sample.d == d
            ranked[own, column] = rankdata(sample.x[own, column]) / own.sum() * np.sqrt(12)
        changes = {"drop": np.delete(sample.x, column, axis=1), "rank": ranked}
        for change, x in changes.items():
            better = held_out(x) - before
            parts = [better[sample.d == d] for d in range(sample.domains)]
            value = 100 * float(np.mean([part.mean() for part in parts]))
            error = np.sqrt(sum(part.var() / len(part) for part in parts)) / sample.domains
            # Domains vary too: what helps in one of a few may not help in a new one.
            spread = np.std([part.mean() for part in parts], ddof=1) / np.sqrt(sample.domains)
            half = 100 * z * max(float(error), float(spread))
            gain = Points(value, (value - half, value + half))
            found.append(ColumnTrial(names[column], change, gain))
    return tuple(found)


def right_answers(sample: Sample) -> Callable[[Floats], Floats]:
    """Return a function of x: whether models trained without a row's domain get it right [n]."""
    task = Task(sample.y, sample.classes, sample.weights, sample.d, sample.domains)

    def held_out(x: Floats) -> Floats:
        models = pooled(Views.of(x))[:2]  # linear and quadratic: fast enough to repeat
        right = np.empty(len(sample.d))

        def answer(t: int) -> None:
            here, others = np.flatnonzero(sample.d == t), np.flatnonzero(sample.d != t)
            q = sum(predict(task, others, here) for predict in models)
            right[here] = np.asarray(q).argmax(axis=1) == sample.y[here]

        with quiet():
            list(side_by_side([functools.partial(answer, t) for t in range(sample.domains)]))
        return right

    return held_out


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
    return tuple(
        _number_drop(t, models, sample, y, found, domains, unit, level) for t in _largest(sample)
    )


def _number_drop(
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
    ratio = _density_ratio(found.domain[here, t], sample.domains)
    steps = _by_region([without, without + (own - without).mean()], found.home[here], ratio)
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


def _mean(values: Floats) -> Step:
    return float(values.mean()), values - values.mean()


def _percent_explained(y: Floats, predicted: Floats) -> Step:
    """Return R² in percent, and each row's influence on it."""
    squares, around = (y - predicted) ** 2, (y - y.mean()) ** 2
    ratio = squares.mean() / around.mean()
    return float(100 * (1 - ratio)), -100 * (squares - ratio * around) / around.mean()


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
