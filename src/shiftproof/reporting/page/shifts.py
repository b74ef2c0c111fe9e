"""What shifts: a diagnosis of the data, and the shift of outputs in runs that measured it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.reporting.diagnosis import read_diagnosis
from shiftproof.reporting.diagnosis_details import KINDS, NUMBER_KINDS
from shiftproof.reporting.diagnosis_tables import drops_table, numbers_table
from shiftproof.reporting.page.answer.lead import nouns
from shiftproof.reporting.page.axes import Axis
from shiftproof.reporting.page.comparable import best_first, shown_domains
from shiftproof.reporting.page.values import Block, DotPlot, Fact, Mark
from shiftproof.reporting.table import NOTHING, Column, Row, Table
from shiftproof.reporting.words import selector_name
from shiftproof.shift.judging import nats
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.results import OutputShift
from shiftproof.sweeps.selection import Selection
from shiftproof.sweeps.selection.invariance import LEVEL

MOST_ROWS = 12


def diagnosis_blocks(diagnosis: Mapping[str, Any]) -> list[Block]:
    """Return the blocks of a diagnosis: amounts, findings in words, advice, and where it shifts."""
    advice = diagnosis["advice"]
    titles = _titles(diagnosis)
    words = [Fact(titles[f["shift"]].capitalize(), [f["text"]]) for f in advice["findings"]]
    labels = Block("table", _classes(diagnosis), "Which classes differ", folded=True)
    if diagnosis.get("numbers"):
        labels = Block("table", numbers_table(diagnosis), "Labels by domain", folded=True)
    blocks = [
        Block("dots", _amounts(diagnosis)),
        Block("facts", words, "What shifts"),
        Block("facts", _what_to_do(advice), "What to do"),
        *[Block("table", lost) for lost in [drops_table(diagnosis)] if lost],
        Block("table", _pairs(diagnosis), "Which domains differ", folded=True),
        Block("table", _features(diagnosis), "Which features differ", folded=True),
        labels,
    ]
    return blocks


def _titles(diagnosis: Mapping[str, Any]) -> Mapping[str, str]:
    return NUMBER_KINDS if diagnosis.get("numbers") else KINDS


def study_diagnosis_blocks(diagnosis: Mapping[str, Any], noun: str = "domain") -> list[Block]:
    """Return a diagnosis for a trained model: findings first, and no advice on what to train.

    The text calls a domain by its `noun`.
    """
    advice = diagnosis["advice"]
    titles = _titles(diagnosis)
    names = diagnosis["domains"]

    def said(text: str) -> str:
        return with_noun(_plain(text), noun, names)

    words = [Fact(titles[f["shift"]].capitalize(), [said(f["text"])]) for f in advice["findings"]]
    if advice["remarks"]:
        words.append(Fact("What to do", [said(text) for text in advice["remarks"]]))
    lost = drops_table(diagnosis)
    if lost:
        one = noun[:1].upper() + noun[1:]
        lost = replace(lost, heads=(one,), notes=tuple(map(said, lost.notes)))
    return [
        Block("facts", words),
        *([Block("table", lost)] if lost else []),
        Block("dots", _amounts(diagnosis), "How much shifts", folded=True),
        Block("table", _pairs(diagnosis), f"Which {nouns(noun)} differ", folded=True),
        Block("table", _features(diagnosis), "Which columns differ", folded=True),
    ]


def with_noun(text: str, noun: str, names: Sequence[str]) -> str:
    """Reword a sentence of a diagnosis without nats, and with `noun` for the word domain.

    Quoted names stay as they are, and so does the sentence if a domain's name contains the word.

    >>> with_noun("up to 5.6% of its maximum (0.022 nats) may be undetected", "ward", ["a"])
    'up to 5.6% of its maximum may be undetected'
    >>> with_noun("column 'domain' differs between domains", "ward", ["a"])
    "column 'domain' differs between wards"
    """
    if any("domain" in name.lower() for name in names):
        return text
    plain = re.sub(r" \([\d.]+(?: of [\d.]+)? nats\)", "", text)
    parts = re.split(r"('[^']*')", plain)
    parts[::2] = [
        re.sub(r"(?<!-)\bdomain\b(?!-)", noun, re.sub(r"\bdomains\b", nouns(noun), part))
        for part in parts[::2]
    ]
    return "".join(parts)


def _plain(text: str) -> str:
    """Return a remark without backticks, which a page does not show as code."""
    return text.replace("`", "")


def page_diagnosis(path: Path) -> dict[str, Any]:
    """Read a stored diagnosis that a page can show; raise `DataError` if it is damaged."""
    found = read_diagnosis(path)
    try:
        diagnosis_blocks(found)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is damaged ({type(error).__name__}: {error}); save the diagnosis again, or"
            " remove the file"
        ) from error
    return found


def output_shift_table(results: SelectionResults) -> Table | None:
    """Return how the outputs shift between training domains at the reported steps."""
    found = [
        (name, dataset, at, trial, shift)
        for dataset in results.datasets
        for name in best_first(results)
        for at in shown_domains(dataset)
        for trial, selected in sorted(dataset.cells[name, at].selections.items())
        if (shift := _shift_at(selected))
    ]
    if not found:
        return None
    places: dict[str, list[str]] = {
        "Dataset": [dataset_title(d.dataset) for _, d, _, _, _ in found],
        "Test domain": [domain_titles(d.dataset, d.domains)[at] for _, d, at, _, _ in found],
        "Trial": [f"{trial}" for _, _, _, trial, _ in found],
    }
    # A value that is the same in every row needs no column.
    places = {title: texts for title, texts in places.items() if len(set(texts)) > 1}
    rows = [
        Row.of(
            algorithm_title(name),
            *(texts[position] for texts in places.values()),
            nats(shift.concept),
            f"{shift.concept_p:.3f}",
            "found" if shift.concept_p < LEVEL else "not found",
            nats(shift.covariate),
        )
        for position, (name, _, _, _, shift) in enumerate(found)
    ]
    columns = (
        *(Column(title, words=title != "Trial") for title in places),
        Column("I(Y;D|R)", -1),
        Column("p", 1),
        Column("Concept shift", words=True),
        Column("I(R;D)", -1),
    )
    note = (
        "In nats, measured on the out parts of the training domains at the reported step"
        f" ({selector_name(results)}). I(Y;D|R): how much the relation between outputs and labels"
        f" differs between domains (concept shift, found if p is below {LEVEL:g}). I(R;D): how much"
        " the outputs differ between domains (covariate shift)."
    )
    return Table("Shift of the outputs", columns, tuple(rows), notes=(note,))


def _shift_at(selected: Selection) -> OutputShift | None:
    return next((e.shift for e in selected.run.evaluations if e.step == selected.step), None)


def _amounts(diagnosis: Mapping[str, Any]) -> DotPlot:
    level = f"{100 * diagnosis['level']:g}%"
    sources = [("inputs", diagnosis["shift"])]
    if diagnosis.get("model"):
        sources.append(("representation", diagnosis["model"]["shift"]))
    amounts = [
        (f"{title}, {source}" if len(sources) > 1 else title, shift[kind])
        for source, shift in sources
        for kind, title in _titles(diagnosis).items()
    ]
    ends = [end for _, each in amounts for end in (*each["interval"], each["value"])]
    axis = Axis.over([0.0, 1.02 * max(ends)])
    rows = [
        Row.of(
            title,
            each["symbol"],
            f"{each['value']:.4f}",
            "–".join(f"{end:.4f}" for end in each["interval"]),
            NOTHING if each["p_value"] is None else f"{each['p_value']:.3f}",
        )
        for title, each in amounts
    ]
    marks = [
        [
            Mark("span", *(axis.percent(end) for end in each["interval"])),
            Mark("dot", axis.percent(each["value"])),
        ]
        for _, each in amounts
    ]
    measured = sum(map(sum, diagnosis["counts"]))
    notes = [
        f"Lower bounds in nats (what the classifiers detect), with {level} intervals; p: p-value of"
        f" a test of no shift. Measured on {measured:,} samples of {diagnosis['data']}"
        f" ({diagnosis['inputs']}); all domains have the same weight. No amount exceeds"
        f" {nats(diagnosis['domain_entropy'])}, the log of the number of domains.",
        *(f"Note: {_plain(note)}." for note in diagnosis["notes"]),
    ]
    columns = (Column("Symbol", words=True), Column("Nats", 1), Column(level), Column("p", -1))
    table = Table("How much shifts", columns, tuple(rows), notes=tuple(notes), heads=("Shift",))
    key = [("dot", "estimate"), ("span", f"{level} interval")]
    return DotPlot(table, "nats", axis.percent_ticks(), marks, key)


def _what_to_do(advice: Mapping[str, Any]) -> list[Fact]:
    choice, beside = advice["choice"], advice["beside"]
    found = [Fact(algorithm_title(choice["algorithm"]), [choice["why"]])]
    found += [Fact("", [advice["command"]], code=True)] * bool(advice["command"])
    if beside:
        found.append(Fact(f"Compare with {algorithm_title(beside['algorithm'])}", [beside["why"]]))
        found += [Fact("", [advice["compare_with"]], code=True)] * bool(advice["compare_with"])
    if advice["remarks"]:
        found.append(Fact("Remarks", list(advice["remarks"])))
    return found


def _pairs(diagnosis: Mapping[str, Any]) -> Table:
    numbers = bool(diagnosis.get("numbers"))
    ordered = sorted(diagnosis["pairs"], key=lambda pair: -float(pair["told_apart_with_label"]))
    rows = [
        Row.of(
            f"{pair['first']} – {pair['second']}",
            f"{100 * pair['told_apart']:.0f}",
            f"{100 * pair['told_apart_with_label']:.0f}",
            f"{pair['w1']:.2f}",
            f"{pair['labels']:.2f}" if numbers else f"{100 * pair['labels']:.0f}",
        )
        for pair in ordered[:MOST_ROWS]
    ]
    columns = (
        Column("From inputs (%)"),
        Column("From inputs and label (%)"),
        Column("Feature distance (sd)"),
        Column("Label distance (sd)" if numbers else "Label distance (%)"),
    )
    notes = (
        "From inputs: how often classifiers predict the right one of two domains; 50% is chance."
        " Feature distance: mean over the features.",
        *_more(len(ordered), "pairs"),
    )
    return Table("Pairs of domains", columns, tuple(rows), notes=notes, heads=("Domains",))


def _features(diagnosis: Mapping[str, Any]) -> Table:
    features: Sequence[Mapping[str, Any]] = diagnosis["features"]
    moved = sum(feature["p_value"] <= 1 - diagnosis["level"] for feature in features)
    rows = [
        Row.of(
            feature["name"],
            f"{feature['w1']:.2f}",
            f"{feature['most']:.2f}",
            " – ".join(feature["farthest"]),
            f"{feature['p_value']:.3f}",
        )
        for feature in features[:MOST_ROWS]
    ]
    columns = (
        Column("Mean distance (sd)"),
        Column("Largest (sd)"),
        Column("Between", words=True),
        Column("p", -1),
    )
    notes = (
        f"{moved:,} of {len(features):,} differ significantly. Distances are between pairs of"
        " domains; p-values are adjusted for all features and pairs.",
        *_more(len(features), "features"),
    )
    return Table("Features by shift", columns, tuple(rows), notes=notes, heads=("Feature",))


def _classes(diagnosis: Mapping[str, Any]) -> Table:
    classes = sorted(
        diagnosis["moved_classes"], key=lambda each: min(each["shares"]) - max(each["shares"])
    )
    rows = [
        Row.of(
            each["name"],
            *(f"{100 * share:.0f}" for share in each["shares"]),
            NOTHING if each["within"] is None else f"{100 * each['within']:.0f}",
        )
        for each in classes[:MOST_ROWS]
    ]
    columns = tuple(map(Column, (*diagnosis["domains"], "inputs explain (%)")))
    notes = (
        "Share of each domain in percent, and the share of the domain's entropy that inputs of the"
        " class explain.",
        *_more(len(classes), "classes"),
    )
    return Table("Classes by domain", columns, tuple(rows), notes=notes, heads=("Class",))


def _more(count: int, things: str) -> list[str]:
    return [f"The first {MOST_ROWS} of {count:,} {things}."] if count > MOST_ROWS else []
