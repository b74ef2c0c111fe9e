"""A diagnosis as text, as HTML and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from shiftproof.core.files import read_json
from shiftproof.core.text import plural, three_digits
from shiftproof.information import Estimate, Shift
from shiftproof.shift.advise import Advice, Choice, points
from shiftproof.shift.diagnosis import Diagnosis
from shiftproof.shift.drops import Drop
from shiftproof.shift.interpretation import summary
from shiftproof.shift.judging import nats
from shiftproof.shift.number_drops import NumberDrop

KINDS = {
    "covariate": "covariate shift",
    "label": "label shift",
    "concept": "concept shift",
    "joint": "all together",
    "within_label": "within a class",
}
# Of a label that is a number.
NUMBER_KINDS = {**KINDS, "within_label": "given the label"}
MOST_PAIRS, MOST_FEATURES, MOST_CLASSES = 10, 8, 10
# Lines of the report without details.
MOST_LINES = 25
# Names in a table or picture are cut to so many letters.
LONGEST = 14


@dataclass(frozen=True)
class About:
    """What a report says beside the diagnosis itself.

    `name` and `summary` describe the dataset, `data` is what the user called it, and
    `inputs` says what was measured.  `command` and `beside` are shell commands that follow
    the advice, where there are any.
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
    """Return the most important lines: remarks fill what the rest leaves."""
    head = [textwrap.shorten(about.title, 2 * width, placeholder=" …")]
    head = _wrapped(head[0], width)
    if diagnosis.left_out:
        head += _wrapped(_sampled(diagnosis), width)
    first = [
        "",
        "What to do",
        *_wrapped(f"- {_settings(advice.choice)}: {advice.choice.why}", width, 2),
    ]
    first += [f"    {about.command}"] * bool(about.command)
    if advice.beside is not None:
        first += _wrapped(f"- beside it, {advice.beside.algorithm}: {advice.beside.why}", width, 2)
        first += [f"    {about.beside}"] * bool(about.beside)
    then = ["", "What shifts (lower bounds, as these classifiers see it)"]
    shown = [finding for finding in advice.findings if finding.shift != "within_label"]
    numbers = bool(diagnosis.numbers)
    then += [
        f"  {KINDS[finding.shift]:<16} {summary(finding, numbers=numbers)}" for finding in shown
    ]
    if advice.kinds == ("label",):
        then += _wrapped("  Label shift alone: what else shows follows from it.", width, 2)
    then += ["", *points_lost(diagnosis, most=4)] if diagnosis.drops else []
    notes = [f"note: {note}" for note in about.notes]
    room = MOST_LINES - len(head) - len(first) - len(then) - 1
    extra, left = [], 0
    for text in [*(f"- {remark}" for remark in advice.remarks), *notes]:
        wrapped = _wrapped(text, width, 2)
        if len(wrapped) <= room and not left:
            extra += wrapped
            room -= len(wrapped)
        else:
            left += 1
    more = f"{left} more {plural('remark', left)} and all numbers" if left else "All numbers"
    return [*head, *first, *extra, *then, f"{more}: `details=True`"][:MOST_LINES]


def _sampled(diagnosis: Diagnosis) -> str:
    """Say how many samples are measured, and how far the amounts of all may be from theirs."""
    measured = sum(diagnosis.sizes)
    half = max((each.interval[1] - each.interval[0]) / 2 for each in diagnosis.shift)
    return (
        f"{measured:,} of {measured + diagnosis.left_out:,} samples are measured, of each"
        f" domain {_range(diagnosis.sizes)}: amounts are known to ±{half:.2g} nats"
        f" ({diagnosis.level:.0%}); a higher `most` measures more"
    )


def points_lost(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    """Yield the points of accuracy, or of R², that held-out domains lose, the largest loss first.

    Numbers have the mean absolute error too, and what it is more.
    """
    drops: Sequence[Drop | NumberDrop] = diagnosis.drops
    ordered = sorted(drops, key=lambda drop: -_lost(drop))
    metric = "R²" if diagnosis.numbers else "Accuracy"
    yield f"{metric} lost if held out, in points, against training with it; and where it is lost"
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
    header = ["", "held out", "lost", "inputs", "unseen inputs", "meaning", "label shares"]
    if diagnosis.numbers:
        header = [*header[:-1], "level", "MAE", "more"]
    yield from _table(header, rows)
    yield from _more(len(ordered) - most, "domain")


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
    lines = _wrapped(about.title, width)
    if diagnosis.left_out:
        lines += _wrapped(_sampled(diagnosis), width)
    for note in about.notes:
        lines += _wrapped(f"note: {note}", width, hang=6)
    lines += ["", "What to do"]
    lines += _wrapped(f"- {_settings(advice.choice)}: {advice.choice.why}", width, hang=2)
    lines += [f"    {about.command}"] * bool(about.command)
    if advice.beside is not None:
        lines += _wrapped(f"- beside it, {advice.beside.algorithm}: {advice.beside.why}", width, 2)
        lines += [f"    {about.beside}"] * bool(about.beside)
    for remark in advice.remarks:
        lines += _wrapped(f"- {remark}", width, hang=2)
    lines += ["", "In words"]
    for finding in advice.findings:
        lines += _wrapped(f"- {kind_titles(diagnosis)[finding.shift]}: {finding.text}", width, 2)
    if diagnosis.drops:
        lines += ["", *points_lost(diagnosis, MOST_PAIRS), *_where_it_is_lost(diagnosis, width)]
    lines += ["", *_amounts(diagnosis, width)]
    labels = _numbers(diagnosis) if diagnosis.numbers else _classes(diagnosis)
    lines += ["", *_pairs(diagnosis), "", *_features(diagnosis), "", *labels]
    return lines


def kind_titles(diagnosis: Diagnosis) -> Mapping[str, str]:
    """Return the names of the shifts."""
    return NUMBER_KINDS if diagnosis.numbers else KINDS


def _where_it_is_lost(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield AUROC and the worst class of each held-out domain, and the columns that were tried."""
    for drop in diagnosis.drops:
        if isinstance(drop, NumberDrop):
            text = (
                f"{drop.domain}: the mean absolute error is {three_digits(drop.mae.held_out)} held"
                f" out and {three_digits(drop.mae.trained_with)} trained with it;"
                f" {drop.unseen_share:.0%} of the rows are unlike all other domains"
            )
            yield from _wrapped(f"  {text}", width, 4)
            continue
        auroc = "" if drop.auroc is None else f" AUROC loses {points(drop.auroc.lost)} points;"
        name, lost = drop.worst_class
        text = (
            f"{drop.domain}:{auroc} class {cut(name, 30)!r} loses most, {lost:.0f} points of"
            f" accuracy; {drop.unseen_share:.0%} of the rows are unlike all other domains"
        )
        yield from _wrapped(f"  {text}", width, 4)
    for trial in diagnosis.trials:
        change = {"drop": "without", "rank": "with ranks within domains of"}[trial.change]
        of = " of R²" if diagnosis.numbers else ""
        text = (
            f"{change} {cut(trial.column, 40)!r}: {points(trial.gain)} points{of} in held-out"
            " domains"
        )
        yield from _wrapped(f"  {text}", width, 4)


def diagnosis_html(diagnosis: Diagnosis, advice: Advice, about: About) -> str:
    """Return the amounts, the findings and the advice as HTML, for a notebook."""
    level = f"{100 * diagnosis.level:g}%"
    header = ["shift", "", "nats", level, "p"]
    titles = kind_titles(diagnosis)
    rows = [[title, *_cells(getattr(diagnosis.shift, name))] for name, title in titles.items()]
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
    """Return what `diagnosis_json` returned, from a file."""
    required = ("data", "inputs", "notes", "domains", "counts", "level", "shift", "advice")
    return read_json(path, required, "save the diagnosis again, or remove the file")


def _amounts(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """Yield the table of amounts: of the inputs and, beside them, of a model's representation."""
    level = f"{100 * diagnosis.level:g}%"
    yield (
        "How much shifts (nats; lower bounds, as these classifiers see it, with intervals of what"
        " they see; p: the chance of such data without a shift)"
    )
    header = ["", "inputs", "", level, "p"]
    shifts: list[Shift] = [diagnosis.shift]
    if diagnosis.model is not None:
        header += ["representation", "", level, "p"]
        shifts.append(diagnosis.model.shift)
    rows = [
        [title, *(cell for shift in shifts for cell in _cells(getattr(shift, name)))]
        for name, title in kind_titles(diagnosis).items()
    ]
    if diagnosis.model is not None:
        rows.append(["risks", *[""] * 4, *_cells(diagnosis.model.risk_shift)])
    yield from _table(header, rows, left=(0, 1, 5))
    method = diagnosis.shift.covariate.method
    most = f"at most {nats(diagnosis.domain_entropy)}, log of the number of domains"
    yield from _wrapped(f"  by {method}, all domains counted alike; {most}", width, hang=2)


def _cells(estimate: Estimate) -> list[str]:
    low, high = (f"{bound:.4f}" for bound in estimate.interval)
    p = "" if estimate.p_value is None else f"{estimate.p_value:.3f}"
    return [estimate.symbol, f"{estimate.value:.4f}", f"{low}–{high}", p]


def _pairs(diagnosis: Diagnosis) -> Iterator[str]:
    ordered = sorted(diagnosis.pairs, key=lambda pair: -pair.told_apart_with_label)
    yield "Which domains differ (told apart by classifiers; 50% is guessing)"
    rows = [
        [
            f"{cut(pair.first, 24)} – {cut(pair.second, 24)}",
            f"{pair.told_apart:.0%}",
            f"{pair.told_apart_with_label:.0%}",
            f"{pair.w1:.2f}",
            f"{pair.labels:.2f}" if diagnosis.numbers else f"{pair.labels:.0%}",
        ]
        for pair in ordered[:MOST_PAIRS]
    ]
    header = ["", "by inputs", "by inputs and label", "features apart (sd)", "labels apart"]
    if diagnosis.numbers:
        header[-1] += " (sd)"
    yield from _table(header, rows)
    yield from _more(len(ordered) - MOST_PAIRS, "pair")


def _features(diagnosis: Diagnosis) -> Iterator[str]:
    moved = sum(feature.p_value <= 1 - diagnosis.level for feature in diagnosis.features)
    yield (
        f"Which features move ({moved:,} of {len(diagnosis.features):,} do; p adjusted for all"
        " features and pairs)"
    )
    rows = [
        [
            cut(feature.name, 40),
            f"{feature.w1:.2f}",
            f"{feature.most:.2f}",
            " – ".join(cut(name, 24) for name in feature.farthest),
            f"{feature.p_value:.3f}",
        ]
        for feature in diagnosis.features[:MOST_FEATURES]
    ]
    yield from _table(["", "mean (sd)", "most (sd)", "between", "p"], rows, left=(0, 3))
    yield from _more(len(diagnosis.features) - MOST_FEATURES, "feature")


def _classes(diagnosis: Diagnosis) -> Iterator[str]:
    moved = sorted(diagnosis.moved_classes, key=lambda each: min(each.shares) - max(each.shares))
    yield "Which classes move (share of each domain; how far their own inputs tell the domain)"
    shown = diagnosis.domains[:6]
    rows = [
        [
            cut(each.name, 30),
            *(f"{share:.0%}" for share in each.shares[: len(shown)]),
            "–" if each.within is None else f"{each.within:.0%}",
        ]
        for each in moved[:MOST_CLASSES]
    ]
    header = ["", *(cut(name, LONGEST) for name in shown), "inputs tell"]
    yield from _table(header, rows)
    yield from _more(len(moved) - MOST_CLASSES, "class")
    yield from _more(len(diagnosis.domains) - len(shown), "domain")


def _numbers(diagnosis: Diagnosis) -> Iterator[str]:
    yield "What the labels are"
    rows = [
        [
            cut(name, 30),
            f"{size}",
            *map(three_digits, (own.mean, own.deviation, own.low, own.median, own.high)),
        ]
        for name, size, own in zip(
            diagnosis.domains, diagnosis.sizes, diagnosis.numbers, strict=True
        )
    ]
    header = ["", "samples", "mean", "sd", "lower quartile", "median", "upper quartile"]
    yield from _table(header, rows[:MOST_CLASSES])
    yield from _more(len(rows) - MOST_CLASSES, "domain")


def _more(count: int, thing: str) -> list[str]:
    return [f"  … and {count:,} more {plural(thing, count)}"] if count > 0 else []


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> Iterator[str]:
    """Yield rows in columns, as wide as they must be; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if position in left else cell.rjust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )


def _range(sizes: Sequence[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def cut(name: str, longest: int = LONGEST) -> str:
    """Shorten a name in its middle: names that begin alike often end differently.

    >>> cut("hospital of the north", 14), cut("north", 14)
    ('hospita… north', 'north')
    """
    if len(name) <= longest:
        return name
    end = (longest - 1) // 2
    return name[: longest - 1 - end] + "…" + name[-end:]
