"""A model trained on all domains: its accuracy on them, since no domain was held out."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from shiftproof.reporting.page.axes import Axis
from shiftproof.reporting.page.values import DotPlot, Mark
from shiftproof.reporting.table import Column, Row, Table

HELD_OUT_WITHIN = (
    "While it was trained, each of these domains was held out in turn to choose its settings, and"
    " these are the scores there: a little too good for a new domain, since settings were chosen by"
    " them."
)
SET_ASIDE = (
    "On rows of the training domains that were set aside: a new domain differs more, so expect less"
    " there."
)


def training_plot(accuracies: Mapping[str, float], note: str) -> DotPlot:
    """Return one dot per training domain, and their mean."""
    values = [100 * value for value in accuracies.values()]
    axis = Axis.over([*values, min(100.0, max(values) + 2), max(0.0, min(values) - 2)], margin=0.02)
    rows = [Row.of(name, f"{value:.1f}") for name, value in zip(accuracies, values, strict=True)]
    marks = [[Mark("dot", axis.percent(value))] for value in values]
    tips = [f"{name}: {value:.1f}%" for name, value in zip(accuracies, values, strict=True)]
    table = Table(
        "Accuracy on the training domains",
        (Column("Accuracy (%)", 1),),
        (*rows, Row.of("mean", f"{fmean(values):.1f}")),
        notes=(note,),
        heads=("Domain",),
        foot=1,
    )
    marks.append([Mark("diamond", axis.percent(fmean(values)))])
    tips.append(f"mean: {fmean(values):.1f}%")
    return DotPlot(table, "Accuracy (%)", axis.percent_ticks(), marks, (), tips)


def training_sentence(accuracies: Mapping[str, float], note: str) -> str:
    """Say how accurate the model is on its training domains, since no other is left to test."""
    how = (
        "each held out while settings were chosen" if note == HELD_OUT_WITHIN else "set-aside rows"
    )
    return (
        f"This model was trained on all {len(accuracies)} domains, so no domain is left to test it"
        f" on. On its training domains ({how}) it is right on {fmean(accuracies.values()):.1%} of"
        f" the rows, from {min(accuracies.values()):.1%} to {max(accuracies.values()):.1%}."
    )
