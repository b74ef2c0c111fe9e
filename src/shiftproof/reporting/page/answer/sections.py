"""The sections of the page, in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

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
    of_task = _of_numbers if expected.numbers else _of_classes
    worst, predictions, pictures, thresholds = of_task(own, evidence, diagnoses)
    card = report_card(expected, baselines, noun, label)
    scores = [Block("table", card), Block("table", card_table(own), "All scores", folded=True)]
    by_domain = f"{noun[:1].upper()}{noun[1:]} by {noun}"
    shifts = [block for found in diagnoses for block in study_diagnosis_blocks(found, noun)]
    return [
        Section("expect", by_domain, _block("dots", forest_plot(own, noun))),
        Section("card", "Report card", scores),
        Section("worst", f"Worst {noun}", [Block("facts", worst)] if worst else []),
        *predictions,
        Section("shift", f"What differs between {nouns(noun)}", [*pictures, *shifts]),
        Section("far", "Inputs it has not seen", _block("dots", far_plot(expected, evidence))),
        Section(
            "thresholds",
            "Thresholds",
            [*_block("dots", shortfall_plot(expected, noun)), *thresholds],
        ),
    ]


class _OfTask(NamedTuple):
    """What differs between the pages of classes and of numbers."""

    worst: list[Fact]
    predictions: list[Section]
    pictures: list[Block]
    thresholds: list[Block]


def _of_classes(
    own: HeldOut, evidence: Evidence, diagnoses: Sequence[Mapping[str, Any]]
) -> _OfTask:
    expected, noun, label = own.expected, evidence.noun, evidence.label
    panels = panel_blocks(own, nouns(noun), reliability_panels)
    predictions = [
        Section("reliability", "Are its probabilities right?", panels),
        Section("confusion", "Confusions", confusion_blocks(expected, noun, label)),
        Section("errors", "Most confident errors", error_blocks(evidence)),
    ]
    return _OfTask(
        worst_facts(expected, evidence, diagnoses),
        predictions,
        picture_blocks(expected, evidence),
        _block("table", cut_table(expected, noun, label)),
    )


def _of_numbers(
    own: HeldOut, evidence: Evidence, diagnoses: Sequence[Mapping[str, Any]]
) -> _OfTask:
    expected, noun = own.expected, evidence.noun
    errors = [Block("dots", errors_plot(expected, f"all {nouns(noun)}"))]
    panels = panel_blocks(own, nouns(noun), predicted_panels)
    strips = column_strips(evidence, list(expected.outputs)) if evidence.shifted else None
    return _OfTask(
        number_worst_facts(expected, evidence, diagnoses),
        [
            Section("predicted", "Predicted against true", panels),
            Section("errors", f"Errors by {noun}", errors),
        ],
        [*image_blocks(evidence), *_block("strips", strips)],
        [],
    )


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


def _block(kind: str, value: object) -> list[Block]:
    """Return a list with one block, or an empty list if there is no value."""
    return [] if value is None else [Block(kind, value)]
