"""`python -m benchmarks.regression_coverage_page`: the page of `benchmarks.regression_coverage`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.regression_coverage import DOMAINS, FRESH, LEVEL, MEAN_ABSOLUTE, SHOWN
from shiftproof.shift.judging import WORTH

Cell = Mapping[str, Any]
STORED, PAGE = Path("results/regression-coverage.json"), Path("results/regression-coverage.md")
AMOUNTS = ("covariate", "label", "concept", "joint", "within_label")
# A true amount within this factor of the limit may be named or not.
NEAR = 2.0
# Tolerance for true amounts, which are means over draws.
ROUNDING = 1e-3
TITLES = {"mae": "MAE", "rmse": "RMSE", "r2": "R²"}


def page(stored: Mapping[str, Any]) -> list[str]:
    """Return the page as lines of Markdown."""
    return [
        "# What is said of predicted numbers, where the truth is known",
        "",
        f"By `python -m benchmarks.regression_coverage --families {stored['families']} --sets"
        f" {stored['sets']}`, then `python -m benchmarks.regression_coverage_page` (records:"
        " `regression-coverage.json`). Seeds were not looked at while the methods were made.",
        "",
        *shift_lines(stored["shifts"]),
        "",
        *expect_lines(stored["expect"], stored["sets"]),
        "",
        *interval_lines(stored["intervals"]),
    ]


def shift_lines(families: Sequence[Cell]) -> list[str]:
    """Return how well `diagnose` finds known shifts."""
    if not families:
        return []
    kinds = list(dict.fromkeys(each["kind"] for each in families))
    lines = [
        "## Shifts (`diagnose`)",
        "",
        f"{len(families)} families of `benchmarks/regression_families.py` ({len(kinds)} kinds,"
        f" seeds from {FRESH}): 2–6 domains of 100–1,500 rows, 1–20 columns, linear and curved"
        " rules, normal and heavy-tailed errors. Amounts in nats. Estimates are lower bounds, so an"
        " interval should begin below the truth; it need not reach it.",
        "",
        "| amount | intervals that begin below the truth | intervals that hold it | found where"
        " there is none | median estimate / truth, where there is some |",
        "|---|---|---|---|---|",
    ]
    for name in AMOUNTS:
        rows = [(own["amounts"][name], own["most"], own["states"].get(name)) for own in families]
        below = [low <= truth + ROUNDING for (truth, _, low, _), _, _ in rows]
        held = [low - ROUNDING <= truth <= high + ROUNDING for (truth, _, low, high), *_ in rows]
        none = [state == "found" for (truth, *_), _, state in rows if truth < ROUNDING]
        some = [own[1] / own[0] for own, most, _ in rows if own[0] > WORTH * most]
        alarms = f"{sum(none)} of {len(none)}" if name != "joint" else "–"
        ratio = f"{np.median(some):.2f}" if some else "–"
        lines.append(
            f"| {name.replace('_', ' ')} | {sum(below)} of {len(below)} | {sum(held)} of"
            f" {len(held)} | {alarms} | {ratio} |"
        )
    missed = [each for each in families if _wrong(each)]
    lines += [
        "",
        f"Kinds of shift named right: {len(families) - len(missed)} of {len(families)} families"
        f" (a shift matters from {WORTH:.0%} of its maximum; a true amount within a factor of"
        f" {NEAR:g} of that may be named or not).",
        "",
        "| kind | rows × columns, domains | label: true, estimate (95%) | concept: true, estimate"
        " (95%) | said | CPU s | |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in families:
        marks = ", curved" * each["curved"] + ", heavy tails" * each["tails"]
        cells = [_amount(each["amounts"][name]) for name in ("label", "concept")]
        lines.append(
            f"| {each['kind']} {each['seed']}{marks} | {each['rows'] * each['domains']} ×"
            f" {each['columns']}, {each['domains']} | {cells[0]} | {cells[1]} |"
            f" {', '.join(each['said']) or 'none'} | {each['seconds']:.0f} |"
            f" {_wrong(each)} |"
        )
    return lines


def _wrong(each: Cell) -> str:
    """Return which shifts were named or missed wrongly, if any."""
    found = []
    covariate, label, concept, _, within = (each["amounts"][name][0] for name in AMOUNTS)
    left = each["most"] - covariate
    wanted = {"covariate": covariate, "label": label, "concept": concept}
    if label > NEAR * WORTH * each["most"] and within < WORTH * each["most"] / NEAR:
        # Label shift alone, which explains all other shifts.
        wanted = {"label": label}
    for name, truth in wanted.items():
        most = left if name == "concept" else each["most"]
        if name in each["said"] and truth < WORTH * most / NEAR:
            found.append(f"{name} for none")
        if name not in each["said"] and truth > NEAR * WORTH * most:
            found.append(f"{name} missed")
    return ", ".join(found)


def _amount(own: Sequence[float]) -> str:
    truth, value, low, high = own
    return f"{truth:.3f}, {value:.3f} ({low:.3f}–{high:.3f})"


def expect_lines(cells: Sequence[Cell], sets: int) -> list[str]:
    """Return the coverage of prediction intervals for the next domain."""
    error = 100 * float(np.sqrt(0.95 * 0.05 / sets))
    lines = [
        "## `expect`: intervals of 95% for the next domain",
        "",
        f"k domains and one more, {sets} sets each (standard error {error:.1f} points). The spread"
        " τ between domains is on the additive scale: log MAE, log RMSE, −log(1 − R²). Each figure"
        " is the percentage of intervals that hold the true score of the last domain, in the mean"
        " over τ of 0.05 to 0.5 and n of 50 to 1,000 samples a domain; in brackets the lowest and"
        " the highest of these cells. Below, the same for its estimate, with the sampling error"
        " added.",
        "",
    ]
    for key, title in (("true", "The true score"), ("observed", "Its estimate")):
        lines += [
            f"| {title} | errors | " + " | ".join(f"k = {k}" for k in DOMAINS) + " |",
            "|---" * (2 + len(DOMAINS)) + "|",
        ]
        for metric in SHOWN:
            for shape in MEAN_ABSOLUTE:
                figures = []
                for k in DOMAINS:
                    own = [
                        100 * each[key]
                        for each in cells
                        if (each["metric"], each["errors"], each["domains"]) == (metric, shape, k)
                    ]
                    figures.append(f"{np.mean(own):.1f} ({min(own):.1f}–{max(own):.1f})")
                lines.append(f"| {TITLES[metric]} | {shape} | " + " | ".join(figures) + " |")
        lines.append("")
    return lines[:-1]


def interval_lines(cells: Sequence[Cell]) -> list[str]:
    """Return the coverage of the intervals of `predict`."""
    lines = [
        f"## `predict --interval {LEVEL:g}`: labels of a new domain inside",
        "",
        "Domains of 30 to 300 rows differ in mean and spread of their errors. *Errors drawn*: no"
        " model is fitted, the case of the theorem. *Ridge, refitted*: slopes and levels differ by"
        " domain; errors are those of a ridge without each domain, and the new domain is predicted"
        " by one with all. The promise needs 9 domains; with exactly 9 the quantile is the largest"
        " error of all, which a model file does not keep: its intervals are shorter, and promise"
        " nothing.",
        "",
        "| case | domains | promised | covered (s.e.) | lowest tenth of new domains | from the"
        " model file | half width |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in cells:
        stored = "–" if each["stored"] is None else f"{100 * each['stored']:.1f}%"
        lines.append(
            f"| {each['case']} | {each['domains']} | {'yes' if each['promised'] else 'no'} |"
            f" {100 * each['covered']:.1f}% ({100 * each['error']:.1f}) |"
            f" {100 * each['worst_tenth']:.0f}% | {stored} | {each['half_width']:.2f} |"
        )
    return lines


def main() -> int:
    """Write the page."""
    PAGE.write_text("\n".join(page(json.loads(STORED.read_text()))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
