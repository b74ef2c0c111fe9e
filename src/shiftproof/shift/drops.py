"""Measure how many points of accuracy and AUROC a held-out domain loses, and why.

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
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, ndtri  # type: ignore[import-untyped]
from scipy.stats import rankdata  # type: ignore[import-untyped]

from shiftproof.core.cores import side_by_side
from shiftproof.information.sample import Floats, Ints, Sample
from shiftproof.shift.densities import Task
from shiftproof.shift.panel import Views, pooled, quiet
from shiftproof.shift.posteriors import Posteriors, weigh

# Inputs are unseen, or rarer, if their density ratio p/q is below these values.
UNSEEN, RARER = 1 / 20, 1 / 2
# The most domains that are held out: the largest ones.
MOST_DOMAINS = 10
# The number of columns to try changing, and the most columns of a table for these trials.
TRIED, MOST_COLUMNS = 3, 64
PARTS = ("label_shares", "unseen", "inputs", "meaning")


@dataclass(frozen=True)
class Points:
    """A difference in percentage points, with its interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Loss:
    """A metric on one domain in percent, trained without and with it, and the parts of the loss."""

    held_out: float
    trained_with: float
    lost: Points
    label_shares: Points
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
    sizes = np.bincount(sample.d)
    chosen = np.sort(np.argsort(-sizes, kind="stable")[:MOST_DOMAINS])
    with quiet():
        return tuple(
            side_by_side(
                [
                    functools.partial(
                        _drop, int(t), views, task, sample, found, domains, classes, level
                    )
                    for t in chosen
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
    inside = found.home[here]
    shares = np.bincount(y, minlength=task.classes) / len(y)
    others_shares = np.bincount(sample.y[others], sample.weights[others], minlength=task.classes)
    others_shares = others_shares / others_shares.sum()
    # One more row, distributed as in the other domains, so that no class is impossible.
    lean = np.log((shares * len(y) + others_shares) / (len(y) + 1))
    corrected = log_softmax(without + lean - np.log(others_shares + 1e-9), axis=-1)
    q = np.exp(found.domain[here, t])
    ratio = (1 - q) / np.maximum((sample.domains - 1) * q, 1e-12)
    steps = [without, corrected]
    for rows in (ratio < UNSEEN, (ratio >= UNSEEN) & (ratio < RARER), ratio >= RARER):
        steps.append(np.where(rows[:, None], inside, steps[-1]))
    right = [(step.argmax(axis=1) == y).astype(float) for step in steps]
    by_class = [(right[-1][y == c] - right[0][y == c]).mean() for c in np.unique(y)]
    worst = int(np.argmax(by_class))
    auroc = None
    if len(np.unique(y)) > 1:
        auroc = _loss([ranking(np.exp(step), y) for step in steps], level)
    return Drop(
        domain=domains[t],
        rows=len(here),
        accuracy=_loss([(float(each.mean()), each - each.mean()) for each in right], level),
        auroc=auroc,
        unseen_share=float((ratio < UNSEEN).mean()),
        worst_class=(classes[int(np.unique(y)[worst])], 100 * float(by_class[worst])),
    )


def ranking(q: Floats, y: Ints) -> tuple[float, Floats]:
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


def _loss(steps: Sequence[tuple[float, Floats]], level: float) -> Loss:
    """Return the loss and its parts from the metric and influences at each step."""
    z = float(ndtri(0.5 + level / 2))

    def points(last: int, first: int) -> Points:
        value = 100 * (steps[last][0] - steps[first][0])
        rows = steps[last][1] - steps[first][1]
        half = float(100 * z * rows.std() / np.sqrt(len(rows)))
        return Points(value, (value - half, value + half))

    parts = {name: points(i + 1, i) for i, name in enumerate(PARTS)}
    return Loss(
        held_out=100 * steps[0][0],
        trained_with=100 * steps[-1][0],
        lost=points(len(steps) - 1, 0),
        **parts,
    )


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
