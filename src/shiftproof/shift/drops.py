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
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from shiftproof.core.cores import side_by_side
from shiftproof.shift.diagnosis import ColumnTrial, Drop, NumberDrop, Points
from shiftproof.shift.labels import UNSEEN, Labels
from shiftproof.statistics.panel import Model, quiet
from shiftproof.statistics.sample import Floats

# Inputs are rarer if their density ratio p/q is below this value.
RARER = 1 / 2
# The most domains that are held out: the largest ones.
MOST_DOMAINS = 10
# The number of columns to try changing, and the most columns of a table for these trials.
TRIED, MOST_COLUMNS = 3, 64


def drops_of(labels: Labels, domains: Sequence[str], level: float) -> tuple[Drop | NumberDrop, ...]:
    """Return the loss of each held-out domain, for the `MOST_DOMAINS` largest domains."""
    largest = np.argsort(-np.bincount(labels.sample.d), kind="stable")[:MOST_DOMAINS]
    models = labels.models(labels.sample.x)
    losses = [
        functools.partial(_drop, labels, models, int(t), domains[t], level)
        for t in np.sort(largest)
    ]
    with quiet():
        return tuple(side_by_side(losses))


def _drop(
    labels: Labels, models: Sequence[Model], t: int, domain: str, level: float
) -> Drop | NumberDrop:
    sample, posteriors = labels.sample, labels.posteriors
    here, others = np.flatnonzero(sample.d == t), np.flatnonzero(sample.d != t)
    predictions = np.stack([model.alone(labels.target, others, here) for model in models])
    without = labels.stacked(predictions, others)
    q = np.exp(posteriors.domain[here, t])
    ratio = (1 - q) / np.maximum((sample.domains - 1) * q, 1e-12)
    inside = posteriors.home[here]
    steps = [without, labels.corrected(without, here, others)]
    for rows in (ratio < UNSEEN, (ratio >= UNSEEN) & (ratio < RARER), ratio >= RARER):
        replaced = rows.reshape(-1, *[1] * (inside.ndim - 1))
        steps.append(np.where(replaced, inside, steps[-1]))
    return labels.drop(domain, here, steps, float((ratio < UNSEEN).mean()), level)


def column_trials(
    labels: Labels, columns: Sequence[int], names: Sequence[str], level: float
) -> tuple[ColumnTrial, ...]:
    """Measure the held-out gain from dropping a column, or from its ranks within domains.

    The score of a domain is the mean of `labels.scores` over its rows.  The interval is adjusted
    for the number of trials.
    """
    # With more columns, the sample may hold their leading components instead.
    if not 2 <= len(names) <= MOST_COLUMNS or not len(columns):
        return ()
    sample = labels.sample
    before = _held_out_scores(labels, sample.x)
    tried = list(columns)[:TRIED]
    z = float(ndtri(1 - (1 - level) / 2 / (2 * len(tried))))
    members = [sample.d == d for d in range(sample.domains)]
    trials = []
    for column in tried:
        ranked = sample.x.copy()
        for rows in members:
            ranked[rows, column] = rankdata(sample.x[rows, column]) / rows.sum() * np.sqrt(12)
        changes = {"drop": np.delete(sample.x, column, axis=1), "rank": ranked}
        for change, x in changes.items():
            better = _held_out_scores(labels, x) - before
            parts = [better[rows] for rows in members]
            value = 100 * float(np.mean([part.mean() for part in parts]))
            error = np.sqrt(sum(part.var() / len(part) for part in parts)) / sample.domains
            # Domains vary too: what helps in one of a few may not help in a new one.
            spread = np.std([part.mean() for part in parts], ddof=1) / np.sqrt(sample.domains)
            half = 100 * z * max(float(error), float(spread))
            gain = Points(value, (value - half, value + half))
            trials.append(ColumnTrial(names[column], change, gain))
    return tuple(trials)


def _held_out_scores(labels: Labels, x: Floats) -> Floats:
    """Return the score of each row [n], by models trained without its domain on x [n, k].

    More than `MOST_DOMAINS` domains are held out in groups.
    """
    models = labels.models(x)[:2]  # linear and quadratic: fast enough to repeat
    d, scores = labels.sample.d, np.zeros(len(x))
    group = d % MOST_DOMAINS

    def score(k: int) -> None:
        rows, others = np.flatnonzero(group == k), np.flatnonzero(group != k)
        predictions = [model.alone(labels.target, others, rows) for model in models]
        predicted = np.mean(predictions, axis=0)
        for t in np.unique(d[rows]):
            here = d[rows] == t
            scores[rows[here]] = labels.scores(predicted[here], rows[here])

    with quiet():
        list(side_by_side([functools.partial(score, int(k)) for k in np.unique(group)]))
    return scores
