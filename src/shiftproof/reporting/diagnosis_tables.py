"""The points that held-out domains lose, as a table for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.core.text import three_digits
from shiftproof.reporting.table import NOTHING, Cell, Column, Row, Table


def drops_table(diagnosis: Mapping[str, Any]) -> Table | None:
    """Return the loss in each domain, the largest first; None if there are no losses."""
    if diagnosis.get("numbers"):
        return _number_drops(diagnosis)
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
        "Points of accuracy that simple classifiers lose if the domain is held out instead of"
        " trained on, with intervals. The parts of the loss: inputs that are rarer in the other"
        " domains (rarer inputs), inputs that hardly occur there (unseen inputs), a different"
        " relation between input and label (concept), and different label shares.",
    )
    return Table("Accuracy lost if held out", columns, tuple(rows), notes=notes, heads=("Domain",))


def _number_drops(diagnosis: Mapping[str, Any]) -> Table | None:
    """Return the loss of R² and MAE in each domain, the largest first."""
    drops = sorted(
        diagnosis.get("drops", ()),
        key=lambda drop: -drop["r2"]["lost"]["value"] if drop["r2"] else float("inf"),
    )
    if not drops:
        return None
    rows = []
    for drop in drops:
        r2, mae = drop["r2"], drop["mae"]
        cells: list[str | Cell] = [NOTHING] * (2 + len(NUMBER_PARTS))
        if r2:
            lost = [_points(r2["lost"]), *(_points(r2[part]) for part in NUMBER_PARTS)]
            cells = [f"{r2['held_out']:.1f}", *lost]
        more = mae["lost"]
        value, low, high = (
            three_digits(each).replace("-", "\N{MINUS SIGN}")
            for each in (more["value"], *more["interval"])
        )
        cells += [three_digits(mae["held_out"]), Cell(value, interval=f"{low} to {high}")]
        rows.append(Row.of(drop["domain"], *cells))
    columns = (
        Column("R² held out (%)"),
        Column("Lost"),
        *(Column(title) for title in NUMBER_PARTS.values()),
        Column("MAE held out"),
        Column("MAE increase"),
    )
    notes = (
        "Points of R² that simple models lose if the domain is held out instead of trained on, with"
        " intervals. The parts of the loss: inputs that are rarer in the other domains (rarer"
        " inputs), inputs that hardly occur there (unseen inputs), a different relation between"
        " input and label (concept), and a different mean label. R² is computed within the domain:"
        " below 0, the domain's own mean predicts better. MAE, the mean absolute error, has the"
        " label's unit.",
    )
    return Table("R² lost if held out", columns, tuple(rows), notes=notes, heads=("Domain",))


def numbers_table(diagnosis: Mapping[str, Any]) -> Table:
    """Return statistics of the numeric labels in each domain."""
    rows = [
        Row.of(
            name,
            f"{sum(counts)}",
            *(three_digits(own[key]) for key in ("mean", "deviation", "low", "median", "high")),
        )
        for name, counts, own in zip(
            diagnosis["domains"], diagnosis["counts"], diagnosis["numbers"], strict=True
        )
    ]
    titles = ("Samples", "Mean", "Standard deviation", "Lower quartile", "Median", "Upper quartile")
    columns = tuple(map(Column, titles))
    return Table("Labels by domain", columns, tuple(rows), heads=("Domain",))


NUMBER_PARTS = {
    "inputs": "Rarer inputs",
    "unseen": "Unseen inputs",
    "meaning": "Concept",
    "level": "Mean label",
}
PARTS = {
    "inputs": "Rarer inputs",
    "unseen": "Unseen inputs",
    "meaning": "Concept",
    "label_shares": "Label shares",
}


def _points(each: Mapping[str, Any]) -> Cell:
    value, low, high = (
        f"{round(number, 1) + 0:.1f}".replace("-", "\N{MINUS SIGN}")  # no -0.0
        for number in (each["value"], *each["interval"])
    )
    return Cell(value, interval=f"{low} to {high}")
