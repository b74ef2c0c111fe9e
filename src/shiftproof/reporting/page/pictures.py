"""Pictures of what differs between domains: images, columns, class shares and far inputs."""

from __future__ import annotations

import numpy as np

from shiftproof.inference.expected import Expected
from shiftproof.metrics import METRICS
from shiftproof.reporting.page.constants import class_name
from shiftproof.reporting.page.evidence import ColumnByDomain, Evidence
from shiftproof.reporting.page.sentences import answer_of, nouns, shares_of
from shiftproof.reporting.page.sweeps import LIMITS, level
from shiftproof.reporting.page.values import (
    PERCENT,
    Axis,
    Block,
    DotPlot,
    HeatCell,
    HeatMap,
    Mark,
    Pictures,
    PlotRow,
    Strip,
    StripRow,
    Strips,
    blocks,
    short,
)
from shiftproof.reporting.table import NOTHING, Column, Row

MOST_CLASSES = 12


def picture_blocks(expected: Expected, evidence: Evidence) -> list[Block]:
    """Return the pictures that the evidence allows."""
    images = [
        Pictures(domain, [(image, "") for image in images])
        for domain, images in evidence.images.items()
    ]
    strips = column_strips(evidence, list(expected.outputs)) if evidence.shifted else None
    shares = share_map(expected, evidence) if expected.of_classes else None
    return blocks(*images, strips, shares)


def share_map(expected: Expected, evidence: Evidence) -> HeatMap | None:
    """Return the share of each class in each domain, coloured by its difference from their mean."""
    shares = shares_of(expected.of_classes)
    if len(shares) < 2:
        return None
    table = np.array(list(shares.values()))
    mean, spread = table.mean(axis=0), np.ptp(table, axis=0)
    if 100 * spread.max() < LIMITS[0]:
        return None  # nothing moves
    count = len(mean)
    most = sorted(np.argsort(-spread, kind="stable")[:MOST_CLASSES].tolist())
    rows = []
    for code in most:
        cells = [
            HeatCell(f"{100 * share:.0f}", level(float(100 * (share - mean[code]))))
            for share in table[:, code]
        ]
        name = answer_of(evidence.label, class_name(expected.classes, code))
        rows.append((name.strip("'"), cells))
    more = f" The {len(most)} of {count} classes that move most." if len(most) < count else ""
    title = f"Classes: share of the rows of each {evidence.noun} (%)"
    note = (
        f"Blue: more than the mean of all {nouns(evidence.noun)}; orange: less. The colours change"
        f" at 0.5, 2, 5 and 10 points.{more}"
    )
    return HeatMap(title, [("", list(shares))], rows, [note], head="Class")


def column_strips(evidence: Evidence, domains: list[str]) -> Strips:
    """Return one small chart per column: where most of its values lie in each domain."""
    key = [("dot", "median"), ("bar", "half of the rows"), ("span", "nine of ten rows")]
    note = f"The columns that differ most between {nouns(evidence.noun)}, without missing values."
    return Strips([_strip(column, domains) for column in evidence.shifted], key, [note])


def _strip(column: ColumnByDomain, domains: list[str]) -> Strip:
    known = [value for five in column.quantiles.values() if five for value in five]
    axis = Axis.over(known or [0.0], 4, margin=0.02)
    rows = []
    for domain in domains:
        five, missing = column.quantiles.get(domain), column.missing.get(domain, 1.0)
        if five is None:
            rows.append(StripRow(domain, (), "no values", f"{domain}: no values"))
            continue
        absent = f"{missing:.0%} missing" if missing >= 0.005 else ""
        low, lower, middle, upper, high = (short(float(f"{value:.4g}")) for value in five)
        tip = (
            f"{domain}: median {middle}\nhalf between {lower} and {upper},"
            f" nine of ten between {low} and {high}"
        )
        tip += f"\n{absent}" if absent else ""
        rows.append(StripRow(domain, tuple(map(axis.percent, five)), absent, tip))
    return Strip(column.name, axis.percent_ticks(), rows)


def far_plot(expected: Expected, evidence: Evidence) -> DotPlot | None:
    """Return one bar per domain; None if no model can tell which inputs are far."""
    shares = {domain: far for domain, far in evidence.far.items() if far is not None}
    if not shares:
        return None
    metric = METRICS.get("mae" if expected.numbers else "accuracy")
    rows = []
    for domain in sorted(shares, key=lambda domain: -shares[domain]):
        outputs, far = expected.outputs.get(domain), shares[domain]
        value = None if outputs is None else metric.score(outputs)
        score = NOTHING if value is None else metric.text(value)
        tip = f"{far:.1%} of the rows of {domain} are far"
        bar = Mark("bar", 0.0, 100 * far)
        rows.append(PlotRow(Row.of(domain, f"{100 * far:.1f}", score), [bar], tip))
    others = nouns(evidence.noun)
    note = (
        f"A row is far if at most 1% of the rows of the training {others} that were set aside are"
        f" as far from them. The model answers for it all the same: read such answers with care."
    )
    scored = f"{metric.heading}{' (%)' * (metric.factor == 100)}"
    return DotPlot.of(
        f"Rows unlike those of the other {others}",
        (Column("Far (%)"), Column(scored, metric.direction)),
        rows,
        *("Share of rows (%)", PERCENT),
        notes=(note,),
        heads=(evidence.noun[:1].upper() + evidence.noun[1:],),
        by=0,
    )
