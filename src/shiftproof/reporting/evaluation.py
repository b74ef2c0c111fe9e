"""The tables of an evaluation: scores by domain, and the report card."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from shiftproof.inference.metrics import DomainMetrics, NumberMetrics
from shiftproof.reporting.predictions import (
    assessment_table,
    card_table,
    numbers_table,
)


def evaluation_tables(
    outcomes: Sequence[DomainMetrics | NumberMetrics], adaptation: str = ""
) -> list[Table]:
    """Return the tables of classification or of regression."""
    numbers = [own for own in outcomes if isinstance(own, NumberMetrics)]
    if numbers:
        return [numbers_table(numbers, adaptation), card_table(numbers)]
    classes = [own for own in outcomes if isinstance(own, DomainMetrics)]
    return [assessment_table(classes, adaptation), card_table(classes)]
