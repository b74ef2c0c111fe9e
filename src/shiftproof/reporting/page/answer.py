"""The page of one model with each domain held out in turn: what to expect at the next domain.

The sections are in the order of a reader's questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shiftproof.inference.expected import Expected
from shiftproof.reporting.page.card import report_card
from shiftproof.reporting.page.evidence import Evidence
from shiftproof.reporting.page.expectation import HeldOut, cut_table, forest_plot, shortfall_plot
from shiftproof.reporting.page.pictures import far_plot, picture_blocks
from shiftproof.reporting.page.predictions import (
    confusion_blocks,
    error_blocks,
    errors_plot,
    prediction_panels,
)
from shiftproof.reporting.page.sentences import nouns, worst_facts, worst_first
from shiftproof.reporting.page.shifts import study_diagnosis_blocks
from shiftproof.reporting.page.values import Block, Section, blocks

# With more domains than this, a section shows the worst and folds the full set.
MANY = 5
WORST = 3


def answer_sections(
    model: HeldOut,
    baselines: Mapping[str, Expected],
    evidence: Evidence,
    diagnoses: Sequence[Mapping[str, Any]] = (),
) -> list[Section]:
    """Return the sections; the page leaves out those without blocks."""
    expected, noun, label = model.expected, evidence.noun, evidence.label
    many = nouns(noun)
    card = blocks(report_card(expected, baselines, noun, label))
    panels = _panels(expected, many)
    if expected.numbers:
        predictions = [
            Section("predicted", "Predicted against true", panels),
            Section("errors", f"Errors by {noun}", blocks(errors_plot(expected, f"all {many}"))),
        ]
        cuts = None
    else:
        scores = report_card(expected, None, noun, label, every=True)
        card.append(Block(scores, "All scores", folded=True))
        predictions = [
            Section("reliability", "Are its probabilities right?", panels),
            Section("confusion", "Confusions", confusion_blocks(expected, noun, label)),
            Section("errors", "Most confident errors", error_blocks(evidence)),
        ]
        cuts = cut_table(expected, noun, label)
    shifts = [block for diagnosis in diagnoses for block in study_diagnosis_blocks(diagnosis, noun)]
    pictures = picture_blocks(expected, evidence)
    by_domain = f"{noun[:1].upper()}{noun[1:]} by {noun}"
    return [
        Section("expect", by_domain, blocks(forest_plot(model, noun))),
        Section("card", "Report card", card),
        Section("worst", f"Worst {noun}", blocks(worst_facts(expected, evidence, diagnoses))),
        *predictions,
        Section("shift", f"What differs between {many}", [*pictures, *shifts]),
        Section("far", "Inputs it has not seen", blocks(far_plot(expected, evidence))),
        Section("thresholds", "Thresholds", blocks(shortfall_plot(expected, noun), cuts)),
    ]


def _panels(expected: Expected, many: str) -> list[Block]:
    """Return panels of all rows and of each domain; with many domains, the worst three first."""
    score = expected.score(expected.metric)
    every = prediction_panels(expected, whole=f"all {many}")
    if len(expected.outputs) <= MANY or score is None:
        return [Block(every)]
    few = prediction_panels(expected, worst_first(score)[:WORST], f"all {many}")
    return [Block(few), Block(every, f"Each of {len(expected.outputs)} {many}", folded=True)]


def figures_of(expected: Expected, evidence: Evidence) -> list[tuple[str, str]]:
    """Return the size of the study: domains, rows, columns and classes."""
    rows = sum(len(outputs.labels) for outputs in expected.outputs.values())
    figures = [(f"{nouns(evidence.noun)} held out in turn", len(expected.outputs)), ("rows", rows)]
    if evidence.columns:
        figures.append(("columns", evidence.columns))
    if not expected.numbers:
        first = next(iter(expected.of_classes.values()))
        figures.append(("classes", first.probabilities.shape[1]))
    return [(name, f"{count:,}") for name, count in figures]


def remarks_of(model: HeldOut, evidence: Evidence) -> list[str]:
    """Return the remarks to print below the first sentence."""
    expected, noun, many = model.expected, evidence.noun, nouns(evidence.noun)
    score = expected.score(expected.metric)
    if score is None:
        return []
    remarks = [
        f"The model was trained {len(expected.outputs)} times, each time without one {noun}, and"
        f" scored there. In brackets: where the next {noun} lies with probability"
        f" {score.level:.0%}."
    ]
    if expected.metric == "mae":
        unit = f" in the unit of {evidence.label}" if evidence.label else ""
        remarks.append(f"The error is the mean absolute error (MAE){unit}.")
    if expected.adaptation:
        remarks.append(
            f"This is adaptation ({expected.adaptation}): it uses the rows of the new {noun},"
            " without labels."
        )
    if len(score.estimates) < MANY:
        remarks.append(
            f"{len(score.estimates)} {many} hardly show how much {many} differ: more would shorten"
            " the interval."
        )
    if score.outliers:
        remarks.append(f"Unlike the other {many}: {', '.join(score.outliers)}.")
    return remarks
