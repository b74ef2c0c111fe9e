"""A diagnosis as text, as HTML and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from shiftproof.core.files import read_json
from shiftproof.core.text import plural, three_digits
from shiftproof.reporting.diagnosis_details import (
    KINDS,
    MOST_PAIRS,
    amount_lines,
    class_lines,
    estimate_cells,
    feature_lines,
    kind_titles,
    label_lines,
    pair_lines,
    where_it_is_lost,
)
from shiftproof.reporting.plain_text import columns, cut, more, wrapped
from shiftproof.shift.advise import Advice, Choice, points
from shiftproof.shift.diagnosis import Diagnosis, Drop, NumberDrop
from shiftproof.shift.interpretation import summary

# The most lines of a report without details.
MOST_LINES = 25
WHAT_SHIFTS = "What shifts (lower bounds: what these classifiers detect)"


@dataclass(frozen=True)
class About:
    """What a report says besides the diagnosis itself.

    `name` and `summary` describe the dataset, `data` is what the user called it, and `inputs` says
    what was measured.  `command` and `beside` are shell commands that follow the advice, if any.
    """

    name: str
    summary: str
    data: str = ""
    inputs: str = ""
    notes: Sequence[str] = ()
    command: str = ""
    beside: str = ""

    @property
    def title(self) -> str:
        """The heading of a report."""
        return f"{self.name}: {self.summary}"


def diagnosis_text(
    diagnosis: Diagnosis, advice: Advice, about: About, width: int = 100, *, details: bool = False
) -> str:
    """Return the report: what to do, what shifts, and the points that held-out domains lose.

    Without `details` it has at most `MOST_LINES` lines; with them, everything that was measured.
    """
    lines = [] if details else _brief(diagnosis, advice, about, width)
    return "\n".join(lines or _full(diagnosis, advice, about, width)) + "\n"


def _brief(diagnosis: Diagnosis, advice: Advice, about: About, width: int) -> list[str]:
    """Return the most important lines, with as many remarks as there is room for."""
    head = [textwrap.shorten(about.title, 2 * width, placeholder=" …")]
    head = wrapped(head[0], width)
    if diagnosis.left_out:
        head += wrapped(_sampled(diagnosis), width)
    first = [
        "",
        "What to do",
        *wrapped(f"- {_settings(advice.choice)}: {advice.choice.why}", width, 2),
    ]
    first += [f"    {about.command}"] * bool(about.command)
    if advice.beside is not None:
        first += wrapped(f"- compare with {advice.beside.algorithm}: {advice.beside.why}", width, 2)
        first += [f"    {about.beside}"] * bool(about.beside)
    then = ["", WHAT_SHIFTS]
    shown = [finding for finding in advice.findings if finding.shift != "within_label"]
    numbers = bool(diagnosis.numbers)
    then += [
        f"  {KINDS[finding.shift]:<16} {summary(finding, numbers=numbers)}" for finding in shown
    ]
    if advice.kinds == ("label",):
        then += wrapped("  Only label shift: the other differences follow from it.", width, 2)
    then += ["", *points_lost(diagnosis, most=4)] if diagnosis.drops else []
    notes = [f"note: {note}" for note in about.notes]
    room = MOST_LINES - len(head) - len(first) - len(then) - 1
    extra, left = [], 0
    for text in [*(f"- {remark}" for remark in advice.remarks), *notes]:
        lines = wrapped(text, width, 2)
        if len(lines) <= room and not left:
            extra += lines
            room -= len(lines)
        else:
            left += 1
    more = f"{left} more {plural('remark', left)} and all numbers" if left else "All numbers"
    return [*head, *first, *extra, *then, f"{more}: `details=True`"][:MOST_LINES]


def _sampled(diagnosis: Diagnosis) -> str:
    """Say how many samples are measured, and how precise the amounts are."""
    measured = sum(diagnosis.sizes)
    half = max((each.interval[1] - each.interval[0]) / 2 for each in diagnosis.shift)
    return (
        f"Measured on {measured:,} of {measured + diagnosis.left_out:,} samples"
        f" ({_range(diagnosis.sizes)} per domain). The widest {diagnosis.level:.0%} interval is"
        f" ±{half:.2g} nats. A higher `most` uses more samples."
    )


def points_lost(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    """Yield the points of accuracy, or of R², that held-out domains lose, the largest loss first.

    For numeric labels, also yield the mean absolute error and its increase.
    """
    drops: Sequence[Drop | NumberDrop] = diagnosis.drops
    ordered = sorted(drops, key=lambda drop: -_lost(drop))
    metric = "R²" if diagnosis.numbers else "Accuracy"
    yield f"{metric} lost if held out, in points, compared with training on it; and its parts"
    rows = []
    for drop in ordered[:most]:
        if isinstance(drop, NumberDrop):
            rows.append([cut(drop.domain, 24), *_number_cells(drop)])
            continue
        loss = drop.accuracy
        parts = (loss.inputs, loss.unseen, loss.meaning, loss.label_shares)
        rows.append(
            [
                cut(drop.domain, 24),
                f"{loss.held_out:.0f}%",
                points(loss.lost),
                *(f"{part.value:.1f}" for part in parts),
            ]
        )
    header = ["", "held out", "lost", "rarer inputs", "unseen inputs", "concept", "label shares"]
    if diagnosis.numbers:
        header = [*header[:-1], "mean label", "MAE", "increase"]
    yield from columns(header, rows)
    yield from more(len(ordered) - most, "domain")


def _lost(drop: Drop | NumberDrop) -> float:
    if isinstance(drop, Drop):
        return drop.accuracy.lost.value
    return -np.inf if drop.r2 is None else drop.r2.lost.value


def _number_cells(drop: NumberDrop) -> list[str]:
    mae = [three_digits(drop.mae.held_out), three_digits(drop.mae.lost.value)]
    if (r2 := drop.r2) is None:
        return ["–"] * 6 + mae
    parts = (r2.inputs, r2.unseen, r2.meaning, r2.level)
    return [
        f"{r2.held_out:.0f}%",
        points(r2.lost),
        *(f"{part.value:.1f}" for part in parts),
        *mae,
    ]


def _full(diagnosis: Diagnosis, advice: Advice, about: About, width: int) -> list[str]:
    lines = wrapped(about.title, width)
    if diagnosis.left_out:
        lines += wrapped(_sampled(diagnosis), width)
    for note in about.notes:
        lines += wrapped(f"note: {note}", width, hang=6)
    lines += ["", "What to do"]
    lines += wrapped(f"- {_settings(advice.choice)}: {advice.choice.why}", width, hang=2)
    lines += [f"    {about.command}"] * bool(about.command)
    if advice.beside is not None:
        lines += wrapped(f"- compare with {advice.beside.algorithm}: {advice.beside.why}", width, 2)
        lines += [f"    {about.beside}"] * bool(about.beside)
    for remark in advice.remarks:
        lines += wrapped(f"- {remark}", width, hang=2)
    lines += ["", WHAT_SHIFTS]
    for finding in advice.findings:
        lines += wrapped(f"- {kind_titles(diagnosis)[finding.shift]}: {finding.text}", width, 2)
    if diagnosis.drops:
        lines += ["", *points_lost(diagnosis, MOST_PAIRS), *where_it_is_lost(diagnosis, width)]
    lines += ["", *amount_lines(diagnosis, width)]
    labels = label_lines(diagnosis) if diagnosis.numbers else class_lines(diagnosis)
    lines += ["", *pair_lines(diagnosis), "", *feature_lines(diagnosis), "", *labels]
    return lines


def diagnosis_html(diagnosis: Diagnosis, advice: Advice, about: About) -> str:
    """Return the amounts, the findings and the advice as HTML, for a notebook."""
    level = f"{100 * diagnosis.level:g}%"
    header = ["shift", "", "nats", level, "p"]
    titles = kind_titles(diagnosis)
    rows = [
        [title, *estimate_cells(getattr(diagnosis.shift, name))] for name, title in titles.items()
    ]
    found = [f"{titles[finding.shift]}: {finding.text}" for finding in advice.findings]
    chosen = [advice.choice, *([advice.beside] if advice.beside else [])]
    todo = [f"{_settings(choice)}: {choice.why}" for choice in chosen]
    return (
        f"<h4>{escape(about.title)}</h4>"
        f"<table>{_html_row(header, 'th')}{''.join(_html_row(row, 'td') for row in rows)}</table>"
        f"{_html_list([f'note: {note}' for note in about.notes])}{_html_list(found)}"
        f"<h4>What to do</h4>{_html_list([*todo, *advice.remarks])}"
    )


def _settings(choice: Choice) -> str:
    """Return an algorithm with its hyper-parameters.

    >>> _settings(Choice("idm", "why", {"gradient_weight": "auto"}))
    'idm (gradient_weight=auto)'
    """
    given = ", ".join(f"{name}={value}" for name, value in choice.hparams.items())
    return f"{choice.algorithm} ({given})" if given else choice.algorithm


def _html_row(cells: Sequence[str], kind: str) -> str:
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"


def _html_list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>" if items else ""


def diagnosis_json(diagnosis: Diagnosis, advice: Advice, about: About) -> dict[str, Any]:
    """Return everything as JSON values."""
    return {
        "data": about.data,
        "inputs": about.inputs,
        "notes": list(about.notes),
        **diagnosis.to_json(),
        "advice": {
            **advice.to_json(),
            "command": about.command,
            "compare_with": about.beside or None,
        },
    }


def read_diagnosis(path: Path) -> dict[str, Any]:
    """Read the values of `diagnosis_json` from a file."""
    required = ("data", "inputs", "notes", "domains", "counts", "level", "shift", "advice")
    return read_json(path, required, "save the diagnosis again, or remove the file")


def _range(sizes: Sequence[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
