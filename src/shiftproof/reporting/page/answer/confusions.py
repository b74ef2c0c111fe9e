"""Which classes are confused with which, by domain."""

from __future__ import annotations

from shiftproof.inference.expected import Expected
from shiftproof.metrics.outputs import confusion, pooled
from shiftproof.reporting.page.answer.lead import answer_of, class_name, nouns
from shiftproof.reporting.page.expectation import confusion_table
from shiftproof.reporting.page.values import Block, HeatCell, HeatMap
from shiftproof.reporting.table import Column, Row, Table

# With more classes, column names would not fit.
MOST_CLASSES = 20
# At each of these shares of a class, in percent, the colour of a cell gets stronger.
LIMITS = (2.0, 10.0, 25.0, 50.0)


def confusion_blocks(expected: Expected, noun: str, label: str) -> list[Block]:
    """Return one row per domain for two classes; for more, a pooled map and folded domains."""
    count = next(iter(expected.of_classes.values())).probabilities.shape[1]
    if count == 2:
        return [Block("table", two_classes(expected, noun, label))]
    if count > MOST_CLASSES:
        return []
    table = confusion_table(expected)
    each = [Block("table", table, f"By {noun}", folded=True)] if table else []
    return [Block("heat", pooled_map(expected, noun)), *each]


def two_classes(expected: Expected, noun: str, label: str) -> Table:
    """Return the right and wrong predictions of both classes, one row per domain."""
    first, second = (answer_of(label, class_name(expected.classes, code)) for code in (0, 1))
    rows = []
    for domain, own in expected.of_classes.items():
        (right0, wrong0), (wrong1, right1) = confusion(own)
        rows.append(Row.of(domain, *map(str, (right0, wrong0, right1, wrong1))))
    columns = (
        Column(f"{first}, right"),
        Column(f"{first}, wrong", -1),
        Column(f"{second}, right"),
        Column(f"{second}, wrong", -1),
    )
    title = "Rows of each class that are predicted right and wrong"
    return Table(title, columns, tuple(rows), heads=(f"{noun[:1].upper()}{noun[1:]}",))


def pooled_map(expected: Expected, noun: str) -> HeatMap:
    """Return the share of each class that is predicted as each class, over all domains."""
    counts = confusion(pooled(list(expected.of_classes.values())))
    names = [class_name(expected.classes, code) for code in range(len(counts))]
    rows = []
    for code, own in enumerate(counts):
        total = max(sum(own), 1)
        cells = []
        for other, found in enumerate(own):
            share = 100 * found / total
            strength = sum(share >= limit for limit in LIMITS)
            level = strength if other == code else -strength
            cells.append(HeatCell(f"{share:.0f}", level))
        rows.append((names[code], cells))
    notes = [
        f"In percent of each class (a row), over all {nouns(noun)}. Blue: right; orange: wrong."
    ]
    title = "What each class is predicted as"
    return HeatMap(title, [("", [f"as {name}" for name in names])], rows, notes, (), False, "Class")
