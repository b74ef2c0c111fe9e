"""The sections of a regression model's page, in the order of a reader's questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shiftproof.inference.expected import Expected
from shiftproof.reporting.page.answer.card import report_card
from shiftproof.reporting.page.answer.evidence import Evidence
from shiftproof.reporting.page.answer.far import far_plot
from shiftproof.reporting.page.answer.lead import nouns
from shiftproof.reporting.page.answer.number_worst import number_worst_facts
from shiftproof.reporting.page.answer.pictures import column_strips, image_blocks
from shiftproof.reporting.page.answer.sections import block, first_sections, panel_blocks
from shiftproof.reporting.page.answer.thresholds import shortfall_plot
from shiftproof.reporting.page.expectation import HeldOut
from shiftproof.reporting.page.numbers import errors_plot, predicted_panels
from shiftproof.reporting.page.shifts import study_diagnosis_blocks
from shiftproof.reporting.page.values import Block, Section


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
