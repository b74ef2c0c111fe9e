"""The page of `benchmarks.diagnosis`: what was said of families with known shifts, judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any

from shiftproof.shift.judging import WORTH

Record = Mapping[str, Any]

# Each amount, and the total that it is a share of.
AMOUNTS = {
    "covariate": "domain_entropy",
    "label": "label_entropy",
    "concept": "uncertainty",
    "within_label": "domain_entropy",
}
# For amounts from this share on, the ratio of estimate to truth is meaningful.
COMPARED = 0.02
GROUPS: dict[str, Callable[[Record], bool]] = {
    "up to 12 columns, normal": lambda r: r["columns"] <= 12 and r["tails"] == "normal",
    "up to 12 columns, other": lambda r: r["columns"] <= 12 and r["tails"] != "normal",
    "more than 12 columns, normal": lambda r: r["columns"] > 12 and r["tails"] == "normal",
    "more than 12 columns, other": lambda r: r["columns"] > 12 and r["tails"] != "normal",
}


def kinds(there: Container[str]) -> tuple[str, ...]:
    """Return the kinds of shift to name for these amounts: label shift alone if it explains all."""
    if "label" in there and "within_label" not in there:
        return ("label",)
    return tuple(kind for kind in ("covariate", "label", "concept") if kind in there)


def true_kinds(true: Mapping[str, float]) -> tuple[str, ...]:
    """Return the kinds of shift whose true amounts are large enough to matter."""
    return kinds({name for name, of in AMOUNTS.items() if true[name] >= WORTH * true[of]})


def right(record: Record) -> bool:
    """Return whether the right kinds of shift were named.

    A true amount within a factor of two of the limit may be named or not.
    """
    shares = {name: record["truth"][name] / record["truth"][of] for name, of in AMOUNTS.items()}
    sure = [name for name, share in shares.items() if share > 2 * WORTH]
    near = [name for name, share in shares.items() if WORTH / 2 <= share <= 2 * WORTH]
    allowed = [
        kinds({*sure, *some})
        for count in range(len(near) + 1)
        for some in combinations(near, count)
    ]
    return tuple(record["said"]) in allowed


def false_alarm(record: Record) -> bool:
    """Return whether concept shift was named although there is none."""
    return "concept" in record["said"] and record["truth"]["concept"] < 1e-9


def too_high(record: Record) -> list[str]:
    """Return the amounts whose lower bound is above the truth."""
    return [n for n in AMOUNTS if record["estimates"][n][1] > record["truth"][n] + 1e-4]


def line_of(record: Record) -> str:
    """Return a record as one line."""
    if record["kind"] == "data":
        return f"{record['name']}: {'+'.join(record['said']) or 'none'} {record['seconds']}"
    marks = ["right" if right(record) else "WRONG"]
    marks += ["FALSE ALARM"] * false_alarm(record) + [f"above: {n}" for n in too_high(record)]
    true = "+".join(record["true"]) or "none"
    said = "+".join(record["said"]) or "none"
    return f"{record['name']}: {true} | {said} | {', '.join(marks)} {record['seconds']}"


def page(records: Sequence[Record]) -> str:
    """Return the page of results."""
    reported = [r for r in records if r["kind"] == "reported"]
    families = [r for r in records if r["made_by"].startswith("family ")]
    others = [r for r in records if r["made_by"].startswith("clustered ")]
    no_concept = [r for r in families if r["truth"]["concept"] < 1e-9]
    alarms = sum(map(false_alarm, no_concept))
    bounds = len(families) * len(AMOUNTS)
    above = sum(len(too_high(r)) for r in families)
    lines = [
        "# Diagnoses of families whose shifts are known",
        "",
        "By `python -m benchmarks.diagnosis` (families and truth: `benchmarks/families.py`;"
        " records: `diagnosis.jsonl`). The families vary the kind of shift, 2–50 columns,"
        " 300–10,000 rows, 2–8 domains, tails and missing cells. True amounts come from the true"
        " densities."
        f" A shift matters from {WORTH:.0%} of its maximum; a true amount within a"
        " factor of two of that may be named or not. Report seeds that were not looked at"
        " while the method was changed.",
        "",
        "| what | result |",
        "|---|---|",
        f"| families | {len(families)} |",
        f"| kinds of shift named right | {sum(map(right, families))} of {len(families)} |",
        f"| false alarms of concept shift | {alarms} of {len(no_concept)} families without any |",
        f"| lower ends below the truth | {bounds - above} of {bounds} |",
        "",
        *_rows("Families that were read wrong before", reported),
        *_images([r for r in records if r["kind"] == "data"]),
        *_rows("All families", families),
        *_coverage(families),
        *_rows(
            "Families of another generator (`benchmarks/clustered_families.py`):"
            f" {sum(map(right, others))} of {len(others)} named right",
            others,
        ),
        "## By kind",
        "",
        "| kind | right |",
        "|---|---|",
    ]
    good = Counter(r["kind"] for r in families if right(r))
    every = Counter(r["kind"] for r in families)
    lines += [f"| {kind} | {good[kind]} of {count} |" for kind, count in every.items()]
    return "\n".join(lines) + "\n"


def _coverage(records: Sequence[Record]) -> list[str]:
    """Return how lower bounds and estimates compare with the truth, by columns and tails."""
    lines = [
        "## Lower bounds, by columns and tails",
        "",
        "Lower ends at most the truth (what is promised), upper ends at least the truth (what is"
        " not: an interval is that of what the classifiers detect), and the median of estimate over"
        f" truth, of true amounts from {COMPARED:.0%} of their maximum.",
        "",
        "| families | amount | lower ends below | upper ends above | estimate / truth |",
        "|---|---|---|---|---|",
    ]
    for group, belongs in GROUPS.items():
        own = [r for r in records if belongs(r)]
        for name, of in AMOUNTS.items():
            below = sum(name not in too_high(r) for r in own)
            upper = sum(r["estimates"][name][2] >= r["truth"][name] for r in own)
            ratios = [
                r["estimates"][name][0] / r["truth"][name]
                for r in own
                if r["truth"][name] >= COMPARED * r["truth"][of]
            ]
            middle = f"{median(ratios):.2f} (of {len(ratios)})" if ratios else "–"
            lines.append(
                f"| {group} ({len(own)}) | {name.replace('_', ' ')} | {below} of {len(own)} |"
                f" {upper} of {len(own)} | {middle} |"
            )
    return [*lines, ""]


def _images(records: Sequence[Record]) -> list[str]:
    lines = []
    for r in records:
        lines += [
            f"Frozen features of `{r['name']}` ({r['rows']} × {r['columns']}, {r['domains']}"
            " domains; no known truth):",
            "",
            *(f"- {name.replace('_', ' ')} shift {words}" for name, words in r["words"].items()),
            f"- advice: `{r['advice']}`, then: {r['first_remark']}",
            "",
        ]
    return lines


def _rows(title: str, records: Sequence[Record]) -> list[str]:
    lines = [
        f"## {title}",
        "",
        "| family | rows × columns, domains | truth | said | covariate: true, estimate (95%) |"
        " concept: true, estimate (95%) | CPU s | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in records:
        cells = []
        for name in ("covariate", "concept"):
            value, low, high = r["estimates"][name]
            cells.append(f"{r['truth'][name]:.3f}, {value:.3f} ({low:.3f}–{high:.3f})")
        mark = "" if right(r) else "wrong"
        lines.append(
            f"| {r['name']}, {r['tails']}, {r['rule']} | {r['rows']} × {r['columns']},"
            f" {r['domains']} | {', '.join(r['true']) or 'none'} |"
            f" {', '.join(r['said']) or 'none'} | {' | '.join(cells)} | {r['seconds']['cpu']} |"
            f" {mark} |"
        )
    return [*lines, ""]
