"""The most confident errors of the model: rows with their cells, or images."""

from __future__ import annotations

from shiftproof.reporting.page.answer.evidence import ConfidentError, Evidence
from shiftproof.reporting.page.answer.lead import answer_of
from shiftproof.reporting.page.values import Block, Fact, Pictures

# A row with more cells than MOST_CELLS shows the first few, which differ most between domains.
MOST_CELLS, FEW_CELLS = 16, 8
WARNING = (
    "A confident error can be an error of the model, or of the label: look at the {thing} itself."
)
COUNTED = " Its number counts the rows of that {noun}."


def error_blocks(evidence: Evidence) -> list[Block]:
    """Return the errors as a list of rows or a sheet of images; empty without errors."""
    if not evidence.errors:
        return []
    if all(each.image for each in evidence.errors):
        shown = [
            (each.image, f"{each.domain}: {_said(each, evidence)}") for each in evidence.errors
        ]
        return [Block("pictures", Pictures("", shown), words=WARNING.format(thing="image"))]
    words = WARNING.format(thing="row") + COUNTED.format(noun=evidence.noun)
    facts = [
        Fact(
            f"{each.domain}, row {each.row}",
            [f"{_said(each, evidence)}.", *([_cells(each)] if each.cells else [])],
        )
        for each in evidence.errors
    ]
    return [Block("facts", facts, words=words)]


def _said(error: ConfidentError, evidence: Evidence) -> str:
    true, predicted = (answer_of(evidence.label, n) for n in (error.label, error.predicted))
    return f"{true}, predicted {predicted} with probability {error.probability:.0%}"


def _cells(error: ConfidentError) -> str:
    shown = error.cells if len(error.cells) <= MOST_CELLS else error.cells[:FEW_CELLS]
    more = len(error.cells) - len(shown)
    said = " · ".join(f"{name}\u00a0{value}" for name, value in shown)
    return said + (f" · and {more} more" if more > 0 else "")
