"""What shifts: a diagnosis of the data, and the shift of outputs in runs that measured it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json
from shiftproof.reporting.diagnosis import (
    amounts,
    amounts_table,
    drops_table,
    features_table,
    kinds,
    labels_table,
    pairs_table,
)
from shiftproof.reporting.page.sentences import nouns
from shiftproof.reporting.page.sweeps import best_first, shown_domains
from shiftproof.reporting.page.values import Axis, Block, DotPlot, Fact, Mark, blocks
from shiftproof.reporting.table import Column, Row, Table
from shiftproof.reporting.words import selector_name
from shiftproof.shift.judging import nats
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.results import OutputShift
from shiftproof.sweeps.selection import Selection
from shiftproof.sweeps.selection.invariance import LEVEL


def diagnosis_blocks(diagnosis: Mapping[str, Any]) -> list[Block]:
    """Return the blocks of a diagnosis: amounts, findings in words, advice, and where it shifts."""
    labels = labels_table(diagnosis)
    heading = labels.title if diagnosis.get("numbers") else "Which classes differ"
    return [
        Block(_amounts(diagnosis)),
        *words_blocks(diagnosis),
        *blocks(drops_table(diagnosis)),
        Block(pairs_table(diagnosis), "Which domains differ", folded=True),
        Block(features_table(diagnosis), "Which features differ", folded=True),
        Block(labels, heading, folded=True),
    ]


def words_blocks(diagnosis: Mapping[str, Any]) -> list[Block]:
    """Return the findings and the advice of a diagnosis."""
    advice = diagnosis["advice"]
    findings = [
        Fact(kinds(diagnosis)[f["shift"]].capitalize(), [f["text"]]) for f in advice["findings"]
    ]
    return [Block(findings, "What shifts"), Block(_advice(advice), "What to do")]


def study_diagnosis_blocks(diagnosis: Mapping[str, Any], noun: str = "domain") -> list[Block]:
    """Return a diagnosis for a trained model: findings first, and no advice on what to train.

    The text calls a domain by its `noun`.
    """
    advice = diagnosis["advice"]

    def reworded(text: str) -> str:
        return with_noun(_plain(text), noun, diagnosis["domains"])

    words = [
        Fact(kinds(diagnosis)[f["shift"]].capitalize(), [reworded(f["text"])])
        for f in advice["findings"]
    ]
    if advice["remarks"]:
        words.append(Fact("What to do", list(map(reworded, advice["remarks"]))))
    blocks = [Block(words)]
    if lost := drops_table(diagnosis):
        one = noun[:1].upper() + noun[1:]
        lost = replace(lost, heads=(one,), notes=tuple(map(reworded, lost.notes)))
        blocks.append(Block(lost))
    return [
        *blocks,
        Block(_amounts(diagnosis), "How much shifts", folded=True),
        Block(pairs_table(diagnosis), f"Which {nouns(noun)} differ", folded=True),
        Block(features_table(diagnosis), "Which columns differ", folded=True),
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
    required = ("data", "inputs", "notes", "domains", "counts", "level", "shift", "advice")
    values = read_json(path, required, "save the diagnosis again, or remove the file")
    try:
        diagnosis_blocks(values)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is damaged ({type(error).__name__}: {error}); save the diagnosis again, or"
            " remove the file"
        ) from error
    return values


def output_shift_table(results: SelectionResults) -> Table | None:
    """Return how the outputs shift between training domains at the reported steps."""
    selected_runs = [
        (name, dataset, at, trial, shift)
        for dataset in results.datasets
        for name in best_first(results)
        for at in shown_domains(dataset)
        for trial, selected in sorted(dataset.cells[name, at].selections.items())
        if (shift := _shift_at(selected))
    ]
    if not selected_runs:
        return None
    places: dict[str, list[str]] = {
        "Dataset": [dataset_title(d.dataset) for _, d, _, _, _ in selected_runs],
        "Test domain": [
            domain_titles(d.dataset, d.domains)[at] for _, d, at, _, _ in selected_runs
        ],
        "Trial": [f"{trial}" for _, _, _, trial, _ in selected_runs],
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
        for position, (name, _, _, _, shift) in enumerate(selected_runs)
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
    table, estimates = amounts_table(diagnosis), list(amounts(diagnosis).values())
    ends = [end for one in estimates for end in (*one["interval"], one["value"])]
    axis = Axis.over([0.0, 1.02 * max(ends)])
    marks = [[Mark("span", *one["interval"]), Mark("dot", one["value"])] for one in estimates]
    notes = (*table.notes, *(f"Note: {_plain(note)}." for note in diagnosis["notes"]))
    key = [("dot", "estimate"), ("span", f"{table.columns[2].title} interval")]
    return DotPlot(replace(table, notes=notes), "nats", axis, marks, key)


def _advice(advice: Mapping[str, Any]) -> list[Fact]:
    choice, beside = advice["choice"], advice["beside"]
    facts = [Fact(algorithm_title(choice["algorithm"]), [choice["why"]])]
    facts += [Fact("", [advice["command"]], code=True)] * bool(advice["command"])
    if beside:
        facts.append(Fact(f"Compare with {algorithm_title(beside['algorithm'])}", [beside["why"]]))
        facts += [Fact("", [advice["compare_with"]], code=True)] * bool(advice["compare_with"])
    if advice["remarks"]:
        facts.append(Fact("Remarks", list(advice["remarks"])))
    return facts
