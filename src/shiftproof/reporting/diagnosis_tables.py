"""The points that held-out domains lose, as a table for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.reporting.table import NOTHING, Cell, Column, Row, Table


def drops_table(diagnosis: Mapping[str, Any]) -> Table | None:
    """Return accuracy and AUROC lost by each domain, the largest loss first; None without any."""
    drops = sorted(diagnosis.get("drops", ()), key=lambda drop: -drop["accuracy"]["lost"]["value"])
    if not drops:
        return None
    rows = [
        Row.of(
            drop["domain"],
            _points(drop["accuracy"]["lost"]),
            *(_points(drop["accuracy"][part]) for part in PARTS),
            NOTHING if drop["auroc"] is None else _points(drop["auroc"]["lost"]),
            f"{drop['worst_class'][0]} ({drop['worst_class'][1]:.0f})",
        )
        for drop in drops
    ]
    columns = (
        Column("Lost"),
        *(Column(title) for title in PARTS.values()),
        Column("AUROC lost"),
        Column("Class that loses most"),
    )
    notes = (
        "Points of accuracy that simple classifiers lose where they are not trained, against"
        " training with the domain, with intervals, split by where they"
        " are lost: on inputs that are rarer in the other domains, on inputs that they do not have,"
        " on inputs that mean something else there, and by other label shares.",
    )
    return Table("Accuracy lost if held out", columns, tuple(rows), notes=notes, heads=("Domain",))


PARTS = {
    "inputs": "Inputs",
    "unseen": "Unseen inputs",
    "meaning": "Meaning",
    "label_shares": "Label shares",
}


def _points(each: Mapping[str, Any]) -> Cell:
    value, low, high = (
        f"{number:.1f}".replace("-", "\N{MINUS SIGN}")
        for number in (each["value"], *each["interval"])
    )
    return Cell(value, interval=f"{low} to {high}")
