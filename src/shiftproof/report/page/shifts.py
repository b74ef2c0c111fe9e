"""What shifts: a diagnosis of the data, and of the outputs of runs that were tested for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shiftproof.report.diagnosis import KINDS
from shiftproof.report.page.axes import Axis
from shiftproof.report.page.comparable import best_first, shown_domains
from shiftproof.report.page.values import (
    Block,
    Cell,
    Column,
    Fact,
    Mark,
    Row,
    Table,
    Track,
    TrackRow,
)
from shiftproof.report.page.words import way
from shiftproof.report.tables import NOTHING
from shiftproof.shift.interpretation import nats
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.domainbed.logs import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.results import OutputShift
from shiftproof.sweeps.selection import Selection
from shiftproof.sweeps.selection.invariance import LEVEL

MOST_ROWS = 12


def diagnosis_blocks(diagnosis: Mapping[str, Any]) -> list[Block]:
    """Return a diagnosis: amounts, in words, where it shifts, and what to do."""
    advice = diagnosis["advice"]
    words = [Fact(KINDS[f["shift"]].capitalize(), [f["text"]]) for f in advice["findings"]]
    blocks = [
        Block("track", _amounts(diagnosis)),
        Block("facts", words, "In words"),
        Block("facts", _what_to_do(advice), "What to do"),
        Block("table", _pairs(diagnosis), "Which domains differ", folded=True),
        Block("table", _features(diagnosis), "Which features move", folded=True),
        Block("table", _classes(diagnosis), "Which classes move", folded=True),
    ]
    return blocks


def output_shift_table(results: SelectionResults) -> Table | None:
    """Return how the outputs shift between training domains at the steps that are reported."""
    found = [
        (name, dataset, at, trial, shift)
        for dataset in results.datasets
        for name in best_first(results)
        for at in shown_domains(dataset)
        for trial, chosen in sorted(dataset.cells[name, at].selections.items())
        if (shift := _shift_at(chosen))
    ]
    if not found:
        return None
    places: dict[str, list[str]] = {
        "Dataset": [dataset_title(d.dataset) for _, d, _, _, _ in found],
        "Test domain": [domain_titles(d.dataset, d.domains)[at] for _, d, at, _, _ in found],
        "Trial": [f"{trial}" for _, _, _, trial, _ in found],
    }
    # What is the same everywhere is no column.
    places = {title: texts for title, texts in places.items() if len(set(texts)) > 1}
    rows = [
        Row(
            algorithm_title(name),
            [
                *(Cell(texts[position]) for texts in places.values()),
                Cell(nats(shift.concept)),
                Cell(f"{shift.concept_p:.3f}"),
                Cell("found" if shift.concept_p < LEVEL else "not found"),
                Cell(nats(shift.covariate)),
            ],
        )
        for position, (name, _, _, _, shift) in enumerate(found)
    ]
    columns = [
        *(Column(title, 0, words=title != "Trial") for title in places),
        Column("I(Y;D|R)", -1),
        Column("p"),
        Column("Concept shift", 0, words=True),
        Column("I(R;D)", -1),
    ]
    notes = [
        "In nats, between the out parts of the training domains, at the reported step"
        f" ({way(results)}). I(Y;D|R): how far the same outputs mean another label in another"
        f" domain; it counts as found where p is below {LEVEL:g}. I(R;D): how far the outputs tell"
        " the domain."
    ]
    return Table("Shift of the outputs", columns, rows, notes)


def _shift_at(chosen: Selection) -> OutputShift | None:
    return next((e.shift for e in chosen.run.evaluations if e.step == chosen.step), None)


def _amounts(diagnosis: Mapping[str, Any]) -> Track:
    level = f"{100 * diagnosis['level']:g}%"
    sources = [("inputs", diagnosis["shift"])]
    if diagnosis.get("model"):
        sources.append(("representation", diagnosis["model"]["shift"]))
    amounts = [
        (f"{title}, {source}" if len(sources) > 1 else title, shift[kind])
        for source, shift in sources
        for kind, title in KINDS.items()
    ]
    ends = [end for _, each in amounts for end in (*each["interval"], each["value"])]
    axis = Axis.over([0.0, 1.02 * max(ends)])
    rows = [
        TrackRow(
            title,
            [
                Mark("span", *(axis.percent(end) for end in each["interval"])),
                Mark("dot", axis.percent(each["value"])),
            ],
            [
                Cell(each["symbol"]),
                Cell(f"{each['value']:.4f}"),
                Cell("–".join(f"{end:.4f}" for end in each["interval"])),
                Cell(NOTHING if each["p_value"] is None else f"{each['p_value']:.3f}"),
            ],
        )
        for title, each in amounts
    ]
    measured = sum(map(sum, diagnosis["counts"]))
    notes = [
        f"In nats, with {level} intervals; p: the chance of such data without a shift. Measured on"
        f" {measured:,} samples of {diagnosis['data']} ({diagnosis['inputs']}), all domains counted"
        f" alike; at most {nats(diagnosis['domain_entropy'])}, the log of the number of domains.",
        *(f"Note: {note}." for note in diagnosis["notes"]),
    ]
    return Track(
        "How much shifts",
        "nats",
        axis.percent_ticks(),
        [Column("Symbol", 0, words=True), Column("Nats"), Column(level, 0), Column("p", -1)],
        rows,
        notes,
        [("dot", "estimate"), ("span", f"{level} interval")],
        corner="Shift",
    )


def _what_to_do(advice: Mapping[str, Any]) -> list[Fact]:
    choice, beside = advice["choice"], advice["beside"]
    found = [Fact(algorithm_title(choice["algorithm"]), [choice["why"]])]
    found += [Fact("", [advice["command"]], code=True)] * bool(advice["command"])
    if beside:
        found.append(Fact(f"beside it, {algorithm_title(beside['algorithm'])}", [beside["why"]]))
        found += [Fact("", [advice["compare_with"]], code=True)] * bool(advice["compare_with"])
    if advice["remarks"]:
        found.append(Fact("Remarks", list(advice["remarks"])))
    return found


def _pairs(diagnosis: Mapping[str, Any]) -> Table:
    ordered = sorted(diagnosis["pairs"], key=lambda pair: -float(pair["told_apart_with_label"]))
    rows = [
        Row(
            f"{pair['first']} – {pair['second']}",
            [
                Cell(f"{100 * pair['told_apart']:.0f}"),
                Cell(f"{100 * pair['told_apart_with_label']:.0f}"),
                Cell(f"{pair['w1']:.2f}"),
                Cell(f"{100 * pair['labels']:.0f}"),
            ],
        )
        for pair in ordered[:MOST_ROWS]
    ]
    columns = [
        Column("By inputs (%)", 0),
        Column("By inputs and label (%)", 0),
        Column("Features apart (sd)", 0),
        Column("Labels apart (%)", 0),
    ]
    notes = ["Told apart by a network: 50% is guessing.", *_more(len(ordered), "pairs")]
    return Table("Pairs of domains", columns, rows, notes, corner="Domains")


def _features(diagnosis: Mapping[str, Any]) -> Table:
    features: Sequence[Mapping[str, Any]] = diagnosis["features"]
    moved = sum(feature["p_value"] <= 1 - diagnosis["level"] for feature in features)
    rows = [
        Row(
            feature["name"],
            [
                Cell(f"{feature['w1']:.2f}"),
                Cell(f"{feature['most']:.2f}"),
                Cell(" – ".join(feature["farthest"])),
                Cell(f"{feature['p_value']:.3f}"),
            ],
        )
        for feature in features[:MOST_ROWS]
    ]
    columns = [
        Column("Mean distance (sd)", 0),
        Column("Farthest (sd)", 0),
        Column("Between", 0, words=True),
        Column("p", -1),
    ]
    notes = [
        f"{moved:,} of {len(features):,} move; p adjusted for all features and pairs.",
        *_more(len(features), "features"),
    ]
    return Table("Features by shift", columns, rows, notes, corner="Feature")


def _classes(diagnosis: Mapping[str, Any]) -> Table:
    classes = sorted(
        diagnosis["moved_classes"], key=lambda each: min(each["shares"]) - max(each["shares"])
    )
    rows = [
        Row(
            each["name"],
            [
                *(Cell(f"{100 * share:.0f}") for share in each["shares"]),
                Cell(NOTHING if each["within"] is None else f"{100 * each['within']:.0f}"),
            ],
        )
        for each in classes[:MOST_ROWS]
    ]
    columns = [Column(name, 0) for name in (*diagnosis["domains"], "inputs tell (%)")]
    notes = [
        "Share of each domain in percent; and how much of the domain the inputs of a class tell.",
        *_more(len(classes), "classes"),
    ]
    return Table("Classes by domain", columns, rows, notes, corner="Class")


def _more(count: int, things: str) -> list[str]:
    return [f"The first {MOST_ROWS} of {count:,} {things}."] if count > MOST_ROWS else []
