"""Thresholds: how likely the next domain falls short, and where to cut a probability."""

from __future__ import annotations

import numpy as np

from shiftproof.inference.expected import Expected
from shiftproof.metrics import METRICS
from shiftproof.reporting.page.answer.lead import answer_of, class_name, nouns
from shiftproof.reporting.page.axes import Axis
from shiftproof.reporting.page.values import DotPlot, Mark
from shiftproof.reporting.table import Cell, Column, Row, Table

CUTS = tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))


def shortfall_plot(expected: Expected, noun: str = "domain") -> DotPlot | None:
    """Return the probability that the next domain is worse than some round thresholds."""
    score = expected.score(expected.metric)
    if score is None:
        return None
    metric = METRICS.get(expected.metric)
    scale = metric.factor
    low, high = score.interval
    thresholds = [tick / scale for tick in Axis.over([scale * low, scale * high], 6).ticks]
    side = metric.worse_side
    axis = Axis(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0))
    rows, marks, tips = [], [], []
    for threshold in thresholds:
        worse = score.probability_worse(threshold)
        said = f"{side} {metric.text(threshold).removesuffix('.0')}{metric.sign}"
        rows.append(Row.of(said, f"{100 * worse:.0f}"))
        marks.append([Mark("bar", 0.0, axis.percent(100 * worse))])
        tips.append(f"The next {noun} has {metric.phrase} {said} with probability {worse:.0%}")
    table = Table(
        f"How likely the next {noun} falls short",
        (Column("%"),),
        tuple(rows),
        heads=(metric.heading,),
    )
    return DotPlot(table, "Probability (%)", axis.percent_ticks(), marks, (), tips)


def cut_table(expected: Expected, noun: str = "domain", label: str = "") -> Table | None:
    """Return rates at cuts of the probability, mean and lowest over domains; two classes only."""
    outputs = list(expected.of_classes.values())
    if outputs[0].probabilities.shape[1] != 2:
        return None
    rows = []
    for cut in CUTS:
        flagged, found, spared = [], [], []
        for own in outputs:
            positive = own.probabilities[:, 1] >= cut
            flagged.append(float(positive.mean()))
            ill = own.labels == 1
            if ill.any():
                found.append(float(positive[ill].mean()))
            if (~ill).any():
                spared.append(float((~positive[~ill]).mean()))
        cells = [_percent(values, how) for values in (found, spared) for how in (np.mean, min)]
        rows.append(Row.of(f"{cut:.1f}", _percent(flagged, np.mean), *cells))
    what = answer_of(label, class_name(expected.classes, 1))
    titles = ("Flagged", "Sensitivity", "Its lowest", "Specificity", "Its lowest")
    note = (
        f"In percent, means over {nouns(noun)}. A row is flagged as {what} if its probability is at"
        f" least the cut; the predictions above cut at 0.5. The lowest is that of a single {noun}."
    )
    return Table(
        f"Where to cut the probability of {what}",
        tuple(map(Column, titles)),
        tuple(rows),
        notes=(note,),
        heads=("Cut",),
    )


def _percent(values: list[float], how: object) -> Cell:
    if not values or not callable(how):
        return Cell()
    return Cell(f"{100 * float(how(values)):.0f}")
