"""The sections of the page, in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shiftproof.inference.expected import Expected
from shiftproof.reporting.page.answer.card import report_card
from shiftproof.reporting.page.answer.confusions import confusion_blocks
from shiftproof.reporting.page.answer.errors import error_blocks
from shiftproof.reporting.page.answer.evidence import Evidence
from shiftproof.reporting.page.answer.far import far_plot
from shiftproof.reporting.page.answer.lead import nouns
from shiftproof.reporting.page.answer.pictures import column_strips, image_blocks, picture_blocks
from shiftproof.reporting.page.answer.thresholds import cut_table, shortfall_plot
from shiftproof.reporting.page.answer.worst import number_worst_facts, worst_facts, worst_first
from shiftproof.reporting.page.expectation import HeldOut, card_table, forest_plot
from shiftproof.reporting.page.numbers import errors_plot, predicted_panels
from shiftproof.reporting.page.reliability import reliability_panels
from shiftproof.reporting.page.shifts import study_diagnosis_blocks
from shiftproof.reporting.page.values import Block, Fact, Panels, Section
from shiftproof.reporting.table import Table

# With more domains than this, a section shows the worst and folds the full set.
MANY = 5
WORST = 3


def answer_sections(
    own: HeldOut,
    baselines: Mapping[str, Expected],
    evidence: Evidence,
    diagnoses: Sequence[Mapping[str, Any]] = (),
) -> list[Section]:
    """Return the sections; the page leaves out those without blocks."""
    expected, noun, label = own.expected, evidence.noun, evidence.label
    many = nouns(noun)
    worst = worst_facts(expected, evidence, diagnoses)
    shifts = [
        *picture_blocks(expected, evidence),
        *(each for found in diagnoses for each in study_diagnosis_blocks(found, evidence.noun)),
    ]
    thresholds = [
        *block("dots", shortfall_plot(expected, noun)),
        *block("table", cut_table(expected, noun, label)),
    ]
    return [
        *first_sections(own, report_card(expected, baselines, noun, label), worst, noun),
        Section(
            "reliability",
            "Are its probabilities right?",
            panel_blocks(own, many, reliability_panels),
        ),
        Section("confusion", "Confusions", confusion_blocks(expected, noun, label)),
        Section("errors", "Most confident errors", error_blocks(evidence)),
        Section("shift", f"What differs between {many}", shifts),
        Section("far", "Inputs it has not seen", block("dots", far_plot(expected, evidence))),
        Section("thresholds", "Thresholds", thresholds),
    ]


def first_sections(own: HeldOut, card: Table, worst: list[Fact], noun: str) -> list[Section]:
    """Return the sections on performance: by domain, by several scores, and on the worst domain."""
    scores = [Block("table", card), Block("table", card_table(own), "All scores", folded=True)]
    return [
        Section(
            "expect",
            f"{noun[:1].upper()}{noun[1:]} by {noun}",
            block("dots", forest_plot(own, noun)),
        ),
        Section("card", "Report card", scores),
        Section("worst", f"Worst {noun}", [Block("facts", worst)] if worst else []),
    ]


def figures_of(expected: Expected, evidence: Evidence) -> list[tuple[str, str]]:
    """Return the size of the study: domains, rows, columns and classes."""
    rows = sum(len(own.labels) for own in expected.outputs.values())
    found = [(f"{nouns(evidence.noun)} held out in turn", f"{len(expected.outputs)}")]
    found.append(("rows", f"{rows:,}"))
    if evidence.columns:
        found.append(("columns", f"{evidence.columns:,}"))
    if expected.numbers:
        return found
    classes = next(iter(expected.of_classes.values())).probabilities.shape[1]
    return [*found, ("classes", f"{classes}")]


def remarks_of(own: HeldOut, evidence: Evidence) -> list[str]:
    """Return the remarks to print below the first sentence."""
    expected = own.expected
    score = expected.score(expected.metric)
    if score is None:
        return []
    many = nouns(evidence.noun)
    said = [
        f"The model was trained {len(expected.outputs)} times, each time without one"
        f" {evidence.noun}, and scored there. In brackets: where the next {evidence.noun} lies with"
        f" probability {score.level:.0%}."
    ]
    if expected.metric == "mae":
        unit = f" in the unit of {evidence.label}" if evidence.label else ""
        said.append(f"The error is the mean absolute error (MAE){unit}.")
    if expected.adaptation:
        said.append(
            f"This is adaptation ({expected.adaptation}): it uses the rows of the new"
            f" {evidence.noun}, without labels."
        )
    if len(score.estimates) < MANY:
        said.append(
            f"{len(score.estimates)} {many} hardly show how much {many} differ: more would shorten"
            " the interval."
        )
    if score.outliers:
        said.append(f"Unlike the other {many}: {', '.join(score.outliers)}.")
    return said


def panel_blocks(own: HeldOut, many: str, draw: Callable[..., Panels]) -> list[Block]:
    """Return panels of all rows and of each domain; with many domains, the worst three first."""
    expected = own.expected
    score = expected.score(expected.metric)
    every = draw(expected, whole=f"all {many}")
    if len(expected.outputs) <= MANY or score is None:
        return [Block("panels", every)]
    few = draw(expected, worst_first(score)[:WORST], f"all {many}")
    name = f"Each of {len(expected.outputs)} {many}"
    return [Block("panels", few), Block("panels", every, name, folded=True)]


def block(kind: str, value: object) -> list[Block]:
    """Return a list with one block, or an empty list if there is no value."""
    return [] if value is None else [Block(kind, value)]


def number_sections(
    own: HeldOut,
    baselines: Mapping[str, Expected],
    evidence: Evidence,
    diagnoses: Sequence[Mapping[str, Any]] = (),
) -> list[Section]:
    """Return the sections; the page leaves out those without blocks."""
    expected, noun, label = own.expected, evidence.noun, evidence.label
    many = nouns(noun)
    worst = number_worst_facts(expected, evidence, diagnoses)
    strips = column_strips(evidence, list(expected.outputs)) if evidence.shifted else None
    shifts = [
        *image_blocks(evidence),
        *block("strips", strips),
        *(each for found in diagnoses for each in study_diagnosis_blocks(found, noun)),
    ]
    return [
        *first_sections(own, report_card(expected, baselines, noun, label), worst, noun),
        Section("predicted", "Predicted against true", panel_blocks(own, many, predicted_panels)),
        Section(
            "errors", f"Errors by {noun}", [Block("dots", errors_plot(expected, f"all {many}"))]
        ),
        Section("shift", f"What differs between {many}", shifts),
        Section("far", "Inputs it has not seen", block("dots", far_plot(expected, evidence))),
        Section("thresholds", "Thresholds", block("dots", shortfall_plot(expected, noun))),
    ]
