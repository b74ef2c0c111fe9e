"""A diagnosis as tables, text and JSON.

The tables are made from the JSON values, so that a diagnosis in memory and one that is read from a
file have the same ones in the text, on the page and in a notebook.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from shiftproof.core.text import MINUS, plural, three_digits
from shiftproof.reporting.table import NOTHING, Cell, Column, Row, Table
from shiftproof.shift.advise import Advice, Choice, points
from shiftproof.shift.diagnosis import Diagnosis
from shiftproof.shift.interpretation import summary
from shiftproof.shift.judging import nats

# The most lines of a report without details.
MOST_LINES = 25
MOST_ROWS = 12
# Names in a table or picture are cut to this many characters.
LONGEST = 14
WHAT_SHIFTS = "What shifts (lower bounds: what these classifiers detect)"
PARTS = {"inputs": "Rarer inputs", "unseen": "Unseen inputs", "meaning": "Concept"}
Values = Mapping[str, Any]


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


# --- tables ---------------------------------------------------------------------------------------
def kinds(values: Values) -> dict[str, str]:
    """Return the title of each kind of shift."""
    return {
        "covariate": "covariate shift",
        "label": "label shift",
        "concept": "concept shift",
        "joint": "joint shift",
        "within_label": "given the label" if values.get("numbers") else "within a class",
    }


def amounts(values: Values) -> dict[str, Values]:
    """Return the estimates by title: of the inputs, and of a model."""
    sources = {"inputs": values["shift"]}
    if model := values.get("model"):
        sources["representation"] = model["shift"]
    estimates = {
        f"{title}, {source}" if model else title: shift[kind]
        for source, shift in sources.items()
        for kind, title in kinds(values).items()
    }
    return estimates | ({"risks": model["risk_shift"]} if model else {})


def amounts_table(values: Values) -> Table:
    """Return the amounts of shift in nats, with intervals and p-values."""
    level = f"{100 * values['level']:g}%"
    rows = [
        Row.of(
            title,
            amount["symbol"],
            f"{amount['value']:.4f}",
            "–".join(f"{end:.4f}" for end in amount["interval"]),
            NOTHING if amount["p_value"] is None else f"{amount['p_value']:.3f}",
        )
        for title, amount in amounts(values).items()
    ]
    note = (
        f"Lower bounds in nats (what {values['shift']['covariate']['method']} detect), with {level}"
        " intervals; p: p-value of a test of no shift. Measured on"
        f" {sum(map(sum, values['counts'])):,} samples of {values['data']} ({values['inputs']});"
        " all domains have the same weight. No amount exceeds"
        f" {nats(values['domain_entropy'])}, the log of the number of domains."
    )
    columns = (Column("Symbol", words=True), Column("Nats", 1), Column(level), Column("p", -1))
    return Table("How much shifts", columns, tuple(rows), notes=(note,), heads=("Shift",))


def drops_table(values: Values) -> Table | None:
    """Return the loss in each domain, the largest first; None if there are no losses."""
    task = _LOSSES[bool(values.get("numbers"))]
    drops = sorted(
        values.get("drops", ()),
        key=lambda drop: -drop[task.metric]["lost"]["value"] if drop[task.metric] else float("inf"),
    )
    if not drops:
        return None
    rows = []
    for drop in drops:
        cells: list[str | Cell] = [NOTHING] * (2 + len(task.parts))
        if loss := drop[task.metric]:
            cells = [f"{loss['held_out']:.1f}", *(_points(loss[n]) for n in ("lost", *task.parts))]
        rows.append(Row.of(drop["domain"], *cells, *task.cells(drop)))
    titles = ("Held out (%)", "Lost", *task.parts.values(), *task.titles)
    note = (
        f"Points of {task.points} that simple models lose if the domain is held out instead of"
        " trained on, with intervals. The parts of the loss: inputs that are rarer in the other"
        " domains (rarer inputs), inputs that hardly occur there (unseen inputs), a different"
        f" relation between input and label (concept), and {task.last_part}.{task.note}"
    )
    title = f"{task.points[0].upper()}{task.points[1:]} lost if held out, in points"
    return Table(title, tuple(map(Column, titles)), tuple(rows), notes=(note,), heads=("Domain",))


def _of_classes(drop: Values) -> tuple[str | Cell, ...]:
    name, lost = drop["worst_class"]
    auroc = NOTHING if drop["auroc"] is None else _points(drop["auroc"]["lost"])
    return auroc, f"{name} ({lost:.0f})"


def _of_numbers(drop: Values) -> tuple[str | Cell, ...]:
    increase = drop["mae"]["lost"]
    ends = (increase["value"], *increase["interval"])
    value, low, high = (three_digits(end).replace("-", MINUS) for end in ends)
    return three_digits(drop["mae"]["held_out"]), Cell(value, interval=f"{low} to {high}")


class _Loss(NamedTuple):
    """What differs between the losses of classes and of numbers: words, and the last columns."""

    metric: str
    points: str
    parts: Mapping[str, str]
    last_part: str
    titles: tuple[str, str]
    cells: Callable[[Values], tuple[str | Cell, ...]]
    note: str = ""


_LOSSES = {
    False: _Loss(
        *("accuracy", "accuracy", {**PARTS, "label_shares": "Label shares"}),
        "different label shares",
        ("AUROC lost", "Class losing most"),
        _of_classes,
    ),
    True: _Loss(
        *("r2", "R²", {**PARTS, "level": "Mean label"}),
        "a different mean label",
        ("MAE held out", "MAE increase"),
        _of_numbers,
        " R² is computed within the domain: below 0, the domain's own mean predicts better. MAE,"
        " the mean absolute error, has the label's unit.",
    ),
}


def _points(difference: Values) -> Cell:
    value, low, high = (
        f"{round(number, 1) + 0:.1f}".replace("-", MINUS)  # no -0.0
        for number in (difference["value"], *difference["interval"])
    )
    return Cell(value, interval=f"{low} to {high}")


def pairs_table(values: Values) -> Table:
    """Return the pairs of domains that classifiers distinguish best."""
    numbers = bool(values.get("numbers"))
    ordered = sorted(values["pairs"], key=lambda pair: -float(pair["told_apart_with_label"]))
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
    titles = ("From inputs (%)", "From inputs and label (%)", "Feature distance (sd)")
    columns = tuple(map(Column, (*titles, f"Label distance ({'sd' if numbers else '%'})")))
    notes = (
        "From inputs: how often classifiers predict the right one of two domains; 50% is chance."
        " Feature distance: mean over the features.",
        *_first(len(ordered), "pairs"),
    )
    return Table("Pairs of domains", columns, tuple(rows), notes=notes, heads=("Domains",))


def features_table(values: Values) -> Table:
    """Return the features that shift most."""
    features: Sequence[Values] = values["features"]
    moved = sum(feature["p_value"] <= 1 - values["level"] for feature in features)
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
    distances = map(Column, ("Mean distance (sd)", "Largest (sd)"))
    columns = (*distances, Column("Between", words=True), Column("p", -1))
    notes = (
        f"{moved:,} of {len(features):,} differ significantly. Distances are between pairs of"
        " domains; p-values are adjusted for all features and domains.",
        *_first(len(features), "features"),
    )
    return Table("Features by shift", columns, tuple(rows), notes=notes, heads=("Feature",))


def labels_table(values: Values) -> Table:
    """Return the share of each class in each domain, or statistics of numeric labels."""
    if values.get("numbers"):
        return _numbers_table(values)
    classes = sorted(
        values["moved_classes"], key=lambda moved: min(moved["shares"]) - max(moved["shares"])
    )
    rows = [
        Row.of(
            moved["name"],
            *(f"{100 * share:.0f}" for share in moved["shares"]),
            NOTHING if moved["within"] is None else f"{100 * moved['within']:.0f}",
        )
        for moved in classes[:MOST_ROWS]
    ]
    columns = tuple(map(Column, (*values["domains"], "inputs explain (%)")))
    notes = (
        "Share of each domain in percent, and the share of the domain's entropy that inputs of the"
        " class explain.",
        *_first(len(classes), "classes"),
    )
    return Table("Classes by domain", columns, tuple(rows), notes=notes, heads=("Class",))


def _numbers_table(values: Values) -> Table:
    statistics = {"mean": "Mean", "deviation": "Standard deviation", "low": "Lower quartile"}
    statistics |= {"median": "Median", "high": "Upper quartile"}
    rows = [
        Row.of(name, f"{sum(counts)}", *(three_digits(labels[key]) for key in statistics))
        for name, counts, labels in zip(
            values["domains"], values["counts"], values["numbers"], strict=True
        )
    ]
    columns = tuple(map(Column, ("Samples", *statistics.values())))
    return Table("Labels by domain", columns, tuple(rows), heads=("Domain",))


def _first(count: int, things: str) -> list[str]:
    return [f"The first {MOST_ROWS} of {count:,} {things}."] if count > MOST_ROWS else []


# --- text -----------------------------------------------------------------------------------------
def diagnosis_text(
    diagnosis: Diagnosis, advice: Advice, about: About, width: int = 100, *, details: bool = False
) -> str:
    """Return the report: what to do, what shifts, and the points that held-out domains lose.

    Without `details` it has at most `MOST_LINES` lines; with them, everything that was measured.
    """
    lines = _full if details else _brief
    return "\n".join(lines(diagnosis, advice, about, width)) + "\n"


def _brief(diagnosis: Diagnosis, advice: Advice, about: About, width: int) -> list[str]:
    """Return the most important lines, with as many remarks as there is room for."""
    head = wrapped(textwrap.shorten(about.title, 2 * width, placeholder=" …"), width)
    head += _sampled(diagnosis, width)
    first = ["", *_what_to_do(advice, about, width)]
    values = diagnosis.to_json()
    then = ["", WHAT_SHIFTS]
    for finding in advice.findings:
        if finding.shift != "within_label":
            text = summary(finding, numbers=bool(diagnosis.numbers))
            then.append(f"  {kinds(values)[finding.shift]:<16} {text}")
    if advice.kinds == ("label",):
        then += wrapped("  Only label shift: the other differences follow from it.", width, 2)
    if lost := drops_table(values):
        domains = len(lost.rows)
        # Without AUROC and the class that loses most, which do not fit.
        narrow = lost if diagnosis.numbers else _narrowed(lost, 6)
        then += ["", *table_lines(replace(narrow, rows=narrow.rows[:4]), 24)]
        then += [f"  … and {domains - 4} more {plural('domain', domains - 4)}"] * (domains > 4)
    room = MOST_LINES - len(head) - len(first) - len(then) - 1
    extra, left = [], 0
    for text in [*(f"- {r}" for r in advice.remarks), *(f"note: {n}" for n in about.notes)]:
        lines = wrapped(text, width, 2)
        if len(lines) <= room and not left:
            extra += lines
            room -= len(lines)
        else:
            left += 1
    more = f"{left} more {plural('remark', left)} and all numbers" if left else "All numbers"
    return [*head, *first, *extra, *then, f"{more}: `details=True`"][:MOST_LINES]


def _full(diagnosis: Diagnosis, advice: Advice, about: About, width: int) -> list[str]:
    values = diagnosis_json(diagnosis, advice, about)
    lines = wrapped(about.title, width) + _sampled(diagnosis, width)
    for note in about.notes:
        lines += wrapped(f"note: {note}", width, 6)
    lines += ["", *_what_to_do(advice, about, width)]
    for remark in advice.remarks:
        lines += wrapped(f"- {remark}", width, 2)
    lines += ["", WHAT_SHIFTS]
    for finding in advice.findings:
        lines += wrapped(f"- {kinds(values)[finding.shift]}: {finding.text}", width, 2)
    labels = labels_table(values)
    if len(diagnosis.domains) > 6 and not diagnosis.numbers:
        labels = _narrowed(labels, 6)
        labels = replace(labels, notes=(*labels.notes, "The first 6 domains."))
    tables = (amounts_table, pairs_table, features_table)
    for table in (drops_table(values), *(table(values) for table in tables), labels):
        if table is not None:
            lines += ["", *table_lines(table)]
            lines += [line for note in table.notes for line in wrapped(f"  {note}", width, 2)]
    for trial in diagnosis.trials:
        change = {"drop": "left out", "rank": "replaced by its rank within each domain"}
        text = (
            f"  {cut(trial.column, 40)!r} {change[trial.change]}: mean gain of held-out domains"
            f" {points(trial.gain)} points of {'R²' if diagnosis.numbers else 'accuracy'}"
        )
        lines += wrapped(text, width, 4)
    return lines


def _what_to_do(advice: Advice, about: About, width: int) -> Iterator[str]:
    yield "What to do"
    yield from wrapped(f"- {with_hparams(advice.choice)}: {advice.choice.why}", width, 2)
    yield from [f"    {about.command}"] * bool(about.command)
    if advice.beside is not None:
        yield from wrapped(
            f"- compare with {advice.beside.algorithm}: {advice.beside.why}", width, 2
        )
        yield from [f"    {about.beside}"] * bool(about.beside)


def _sampled(diagnosis: Diagnosis, width: int) -> list[str]:
    """Say how many samples are measured and how precise the amounts are, if some are left out."""
    if not diagnosis.left_out:
        return []
    measured, low, high = sum(diagnosis.sizes), min(diagnosis.sizes), max(diagnosis.sizes)
    sizes = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    half = max((amount.interval[1] - amount.interval[0]) / 2 for amount in diagnosis.shift)
    return wrapped(
        f"Measured on {measured:,} of {measured + diagnosis.left_out:,} samples"
        f" ({sizes} per domain). The widest {diagnosis.level:.0%} interval is"
        f" ±{half:.2g} nats. A higher `most` uses more samples.",
        width,
    )


def with_hparams(choice: Choice) -> str:
    """Return an algorithm with its hyper-parameters.

    >>> with_hparams(Choice("idm", "why", {"match_within": "class"}))
    'idm (match_within=class)'
    """
    given = ", ".join(f"{name}={value}" for name, value in choice.hparams.items())
    return f"{choice.algorithm} ({given})" if given else choice.algorithm


def _narrowed(table: Table, count: int) -> Table:
    """Return a table with its first columns only."""
    rows = tuple(replace(row, cells=row.cells[:count]) for row in table.rows)
    return replace(table, columns=table.columns[:count], rows=rows)


def table_lines(table: Table, longest: int = 40) -> Iterator[str]:
    """Yield the title of a table and its aligned rows; only the loss itself has its interval."""
    lines = [["", *(cut(column.title, 26) for column in table.columns)]]
    for row in table.rows:
        cells = [cut(row.label, longest)]
        for column, cell in zip(table.columns, row.cells, strict=True):
            interval = f" ({cell.interval})" * (column.title == "Lost" and bool(cell.interval))
            cells.append(cut(cell.text, longest) + interval)
        lines.append(cells)
    left = [True, *(column.words for column in table.columns)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield table.title
    for line in lines:
        texts = (
            text.ljust(width) if is_left else text.rjust(width)
            for text, width, is_left in zip(line, widths, left, strict=True)
        )
        yield ("  " + "  ".join(texts)).rstrip()


def wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    """Return a text as lines; all but the first are indented by `hang`."""
    return textwrap.wrap(
        text, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )


def cut(name: str, longest: int = LONGEST) -> str:
    """Shorten a name in its middle, since names that begin alike often end differently.

    >>> cut("hospital of the north", 14), cut("north", 14)
    ('hospita… north', 'north')
    """
    if len(name) <= longest:
        return name
    end = (longest - 1) // 2
    return name[: longest - 1 - end] + "…" + name[-end:]
