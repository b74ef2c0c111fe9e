"""Pictures of what shifts: class shares, columns or images, by domain."""

from __future__ import annotations

import numpy as np

from shiftproof.inference.expected import Expected
from shiftproof.reporting.page.answer.evidence import ColumnByDomain, Evidence
from shiftproof.reporting.page.answer.lead import answer_of, class_name, nouns, shares_of
from shiftproof.reporting.page.axes import Axis, short
from shiftproof.reporting.page.heat import LIMITS, level
from shiftproof.reporting.page.values import (
    Block,
    HeatCell,
    HeatMap,
    Pictures,
    Strip,
    StripRow,
    Strips,
)

MOST_CLASSES = 12


def picture_blocks(expected: Expected, evidence: Evidence) -> list[Block]:
    """Return the pictures that the evidence allows."""
    blocks = image_blocks(evidence)
    if evidence.shifted:
        blocks.append(Block("strips", column_strips(evidence, list(expected.outputs))))
    shares = share_map(expected, evidence)
    return [*blocks, *([Block("heat", shares)] if shares else [])]


def image_blocks(evidence: Evidence) -> list[Block]:
    """Return a few images of each domain."""
    return [
        Block("pictures", Pictures(domain, [(image, "") for image in images]))
        for domain, images in evidence.images.items()
    ]


def share_map(expected: Expected, evidence: Evidence) -> HeatMap | None:
    """Return the share of each class in each domain, coloured by its difference from their mean."""
    count = next(iter(expected.of_classes.values())).probabilities.shape[1]
    shares = shares_of(expected.of_classes, count)
    if len(shares) < 2:
        return None
    mean = np.mean(list(shares.values()), axis=0)
    spread = [max(own[code] for own in shares.values()) - min(own[code] for own in shares.values())
              for code in range(count)]  # fmt: skip
    if 100 * max(spread) < LIMITS[0]:
        return None  # nothing moves
    kept = sorted(sorted(range(count), key=lambda code: -spread[code])[:MOST_CLASSES])
    rows = []
    for code in kept:
        cells = [
            HeatCell(f"{100 * own[code]:.0f}", level(float(100 * (own[code] - mean[code]))))
            for own in shares.values()
        ]
        name = answer_of(evidence.label, class_name(expected.classes, code))
        rows.append((name.strip("'"), cells))
    more = f" The {len(kept)} of {count} classes that move most." if len(kept) < count else ""
    title = f"Classes: share of the rows of each {evidence.noun} (%)"
    notes = [
        f"Blue: more than the mean of all {nouns(evidence.noun)}; orange: less. The colours change"
        f" at 0.5, 2, 5 and 10 points.{more}"
    ]
    return HeatMap(title, [("", list(shares))], rows, notes, (), False, "Class")


def column_strips(evidence: Evidence, domains: list[str]) -> Strips:
    """Return one small chart per column: where most of its values lie in each domain."""
    noun = evidence.noun
    return Strips(
        [_strip(column, domains) for column in evidence.shifted],
        [
            ("dot", "median"),
            ("bar", "half of the rows"),
            ("span", "nine of ten rows"),
        ],
        [f"The columns that differ most between {nouns(noun)}, without missing values."],
    )


def _strip(column: ColumnByDomain, domains: list[str]) -> Strip:
    known = [value for found in column.quantiles.values() if found for value in found]
    axis = Axis.over(known or [0.0], 4, margin=0.02)
    rows = []
    for domain in domains:
        found, missing = column.quantiles.get(domain), column.missing.get(domain, 1.0)
        absent = f"{missing:.0%} missing" if missing >= 0.005 else ""
        if found is None:
            rows.append(StripRow(domain, (), "no values", f"{domain}: no values"))
            continue
        places = tuple(axis.percent(value) for value in found)
        low, lower, middle, upper, high = (short(float(f"{value:.4g}")) for value in found)
        tip = (
            f"{domain}: median {middle}\nhalf between {lower} and {upper},"
            f" nine of ten between {low} and {high}"
        )
        rows.append(StripRow(domain, places, absent, tip + (f"\n{absent}" if absent else "")))
    return Strip(column.name, axis.percent_ticks(), rows)
