"""The simulated coverage of `expect` and of other intervals, as lines of Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.expect_methods import EXPECT, LEVEL
from benchmarks.expect_simulated import (
    ACCURACY,
    DOMAINS,
    FROM,
    HIGHEST,
    LOWEST,
    POOL,
    POSITIVE,
    SIZES_OF,
    TAUS,
)

Cell = Mapping[str, Any]
SAMPLING = {
    "accuracy": f"Accuracies: log odds are normal around those of {ACCURACY:.0%}, and right"
    " answers are binomial.",
    "auroc": f"AUROC: log odds are normal around those of {ACCURACY:g}, and scores are normal in"
    f" each of two classes, of which one has {POSITIVE:.0%} of the samples. Domains are drawn from"
    f" {POOL} simulated ones.",
}
SHAPES = {
    "heavy tails": "Domains with heavy tails: Student's t distribution with 4 degrees of freedom.",
    "skewed": "Domains that are skewed: the exponential distribution.",
}


def section(stored: Mapping[str, Any]) -> list[str]:
    """Return the simulation as lines of Markdown."""
    cells: Sequence[Cell] = stored["cells"]
    repetitions = stored["repetitions"]
    error = 100 * float(np.sqrt(LEVEL * (1 - LEVEL) / repetitions))
    normal = [each for each in cells if each["process"] == "normal"]
    own = [each for each in normal if each["method"] == EXPECT]
    return [
        "## Simulated domains",
        "",
        "Written by `python -m benchmarks.expect_simulated`. k domains and one more are drawn, with"
        " known spread τ between domains on the scale of log odds. A domain of n samples has the"
        f" sampling error s = 1 / √({ACCURACY * (1 - ACCURACY):.2g} n), that of an accuracy of"
        f" {ACCURACY:.0%}; where n varies, equal ratios are equally likely. Each figure is the"
        f" percentage of {repetitions} intervals of {LEVEL:.0%} that hold the true figure of the"
        " last domain; the second, that hold its estimate, with the sampling error of that domain"
        f" added to the interval. Their standard error is about {error:.1f} points.",
        "",
        *_grid("normal", own, widths=True),
        "",
        *_judged(own),
        "",
        "### Other intervals",
        "",
        f"The same domains, from k = {FROM} on: the lowest and the highest coverage of the"
        f" {len([each for each in own if each['domains'] >= FROM])} cells, and how many of them are"
        f" from {LOWEST:.0%} to {HIGHEST:.0%}. Plugging in one estimate of τ is too short where τ"
        " is near the sampling error, by more than ten points. A posterior can be calibrated on"
        " average over its prior, but not for every τ. The confidence distribution was chosen for"
        " its exact pivot, and has no constants to choose. For the estimate of the next domain"
        " alone, whose own sampling error hides that of τ, the interval of Hartung and Knapp is"
        " better; for the true figure it is far too short.",
        "",
        *_compared(normal),
        "",
        "### Accuracies and AUROCs",
        "",
        "Estimates and sampling errors are those of `expect`; they are not normal, and the"
        " estimated sampling error depends on the estimate.",
        *_blocks(cells, SAMPLING),
        "",
        "### Domains that are not normal",
        "",
        "The model takes domains as normal. Here they are not; sampling errors are.",
        *_blocks(cells, SHAPES),
    ]


def _grid(name: str, cells: Sequence[Cell], *, widths: bool = False) -> list[str]:
    """Return a table with one row per number of domains and samples."""
    found = {(each["domains"], each["tau"], tuple(each["size"])): each for each in cells}
    heads = [f"τ = {tau:g}" for tau in TAUS]
    lines = [f"| domains | samples | s | {' | '.join(heads)} |", "|---:|---:|---:|" + "---:|" * 4]
    for k in DOMAINS:
        for size in SIZES_OF[name]:
            row = [found[k, tau, size] for tau in TAUS]
            said = [
                f"{100 * each['true']:.1f}, {100 * each['observed']:.1f}"
                + (f" ({each['width']:.2f})" if widths else "")
                for each in row
            ]
            few, many = size
            samples = f"{few}" if few == many else f"{few} to {many}"
            errors = [(ACCURACY * (1 - ACCURACY) * n) ** -0.5 for n in dict.fromkeys(size)]
            error = " to ".join(f"{value:.2f}" for value in errors)
            lines.append(f"| {k} | {samples} | {error} | {' | '.join(said)} |")
    if widths:
        lines += ["", "In brackets: the median width for the true figure, in log odds."]
    return lines


def _judged(cells: Sequence[Cell]) -> list[str]:
    """Say which cells are outside the required range."""
    asked = [each for each in cells if each["domains"] >= FROM]
    high = [each for each in asked if each["true"] > HIGHEST]
    low = [each for each in asked if each["true"] < LOWEST]
    inside = len(asked) - len(high) - len(low)
    found = [
        f"From {FROM} domains on, {inside} of {len(asked)} cells are from {LOWEST:.0%} to"
        f" {HIGHEST:.0%}; {len(low)} are below, and {len(high)} above."
    ]
    if high:
        most = max(each["tau"] / _typical_error(each) for each in high)
        found.append(
            f" All that are above have τ at most {most:.2f} s (s of the middle size): a few domains"
            " cannot show that τ is that small, so the interval must allow for a τ near s, and"
            " holds more than it needs to. Methods that stay below 97% there fall below 90%"
            " elsewhere."
        )
    if low:
        said = ", ".join(
            f"{100 * each['true']:.1f}% (k = {each['domains']}, τ = {each['tau']:g},"
            f" {each['size'][0]} to {each['size'][1]} samples)"
            for each in low
        )
        found.append(f" Below are: {said}.")
    return ["".join(found)]


def _typical_error(cell: Cell) -> float:
    few, many = cell["size"]
    return float((ACCURACY * (1 - ACCURACY) * (few * many) ** 0.5) ** -0.5)


def _compared(cells: Sequence[Cell]) -> list[str]:
    """Return a table with one row per method: the true figure, then the estimate."""
    lines = [
        "| interval | true: lowest | highest | inside | estimate: lowest | highest | inside |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for method in dict.fromkeys(each["method"] for each in cells):
        own = [each for each in cells if each["method"] == method and each["domains"] >= FROM]
        row = []
        for what in ("true", "observed"):
            shares = np.array([each[what] for each in own])
            inside = int(((shares >= LOWEST) & (shares <= HIGHEST)).sum())
            row += [f"{100 * shares.min():.1f}", f"{100 * shares.max():.1f}", f"{inside}"]
        lines.append(f"| {method} | {' | '.join(row)} |")
    return lines


def _blocks(cells: Sequence[Cell], said: Mapping[str, str]) -> list[str]:
    lines = []
    for name, text in said.items():
        own = [each for each in cells if each["process"] == name]
        lines += ["", text, "", *_grid(name, own)]
    return lines
