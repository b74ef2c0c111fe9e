"""Ranks, differences to the baseline and costs: tables with a plot in each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median

import numpy as np

from shiftproof.core.text import counted
from shiftproof.reporting.page.axes import Axis, signed
from shiftproof.reporting.page.comparable import average, shown_domains
from shiftproof.reporting.page.values import DotPlot, Mark
from shiftproof.reporting.page.words import what_the_numbers_are
from shiftproof.reporting.table import Column, Row, Table
from shiftproof.reporting.words import p_value_text
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.comparisons import (
    DRAWS,
    MOST_ENUMERATED,
    compare_with_baseline,
    competition_ranks,
)
from shiftproof.sweeps.critical_difference import LEVEL, compare_ranks
from shiftproof.sweeps.domainbed.names import algorithm_title
from shiftproof.sweeps.results import Run

Accuracies = dict[str, dict[tuple[str, int], float]]


def rank_plot(results: SelectionResults) -> DotPlot | None:
    """Plot the ranks of each algorithm over datasets or, with one dataset, over test domains.

    Return None for fewer than three algorithms: ranks of two say no more than their difference.
    """
    datasets = len(results.datasets)
    accuracies = _by_dataset(results) if datasets > 1 else _by_test_domain(results)
    unit = "dataset" if datasets > 1 else "test domain"
    units = sorted({key for row in accuracies.values() for key in row})
    whole = [name for name, row in accuracies.items() if len(row) == len(units)]
    if len(whole) < 3 or len(units) < 2:
        return None
    compared = {name: accuracies[name] for name in whole}
    ranks = ranks_within(compared, units)
    whole.sort(key=lambda name: fmean(ranks[name]))
    notes = [
        f"Rank 1 is the highest {results.measure} as printed, over {counted(len(units), unit)};"
        " equal ones share the smallest rank. The line runs from the best to the worst rank: it is"
        f" no confidence interval. {what_the_numbers_are(results, results.datasets)}"
    ]
    lacking = len(results.algorithms) - len(whole)
    if lacking:
        notes.append(f"{counted(lacking, 'algorithm')} without a number on each {unit}: not ranked")
    axis = Axis(1, max(len(whole), 2), _rank_ticks(len(whole)))
    key = [("tick", f"rank on one {unit}"), ("dot", "mean rank"), ("span", "best to worst")]
    alike: set[str] = set()
    if datasets > 1:
        tested = compare_ranks(compared)
        means = tested.mean_ranks
        alike = {n for n in whole if abs(means[n] - means[whole[0]]) < tested.difference}
        key.append(("band", f"not told apart from {algorithm_title(whole[0])}"))
        notes.append(
            f"Two mean ranks differ by more than chance (Nemenyi test, {LEVEL:.0%}, datasets taken"
            f" as independent) only if they are {tested.difference:.1f} apart; for this test alone,"
            " equal ones share the mean of their ranks."
        )
    marks = [
        [
            *([Mark("band", 0.0, 100.0)] if name in alike else []),
            Mark("span", axis.percent(min(ranks[name])), axis.percent(max(ranks[name]))),
            *(Mark("tick", axis.percent(rank)) for rank in sorted(set(ranks[name]))),
            Mark("dot", axis.percent(fmean(ranks[name]))),
        ]
        for name in whole
    ]
    rows = [
        Row.of(algorithm_title(name), f"{fmean(r):.1f}", f"{median(r):g}", f"{max(r)}")
        for name in whole
        for r in [ranks[name]]
    ]
    table = Table(
        f"Ranks over {counted(len(units), unit)}",
        tuple(Column(title, -1) for title in ("Mean", "Median", "Worst")),
        tuple(rows),
        notes=tuple(notes),
        by=0,
    )
    return DotPlot(table, "rank", axis.percent_ticks(), marks, key)


def ranks_within(
    accuracies: Mapping[str, Mapping[tuple[str, int], float]], units: Sequence[tuple[str, int]]
) -> dict[str, list[int]]:
    """Return the rank of each algorithm on every unit (a dataset or a test domain)."""
    ranks: dict[str, list[int]] = {name: [] for name in accuracies}
    for unit in units:
        found = competition_ranks([accuracies[name][unit] for name in accuracies])
        for name, rank in zip(accuracies, found, strict=True):
            ranks[name].append(rank)
    return ranks


def baseline_plot(results: SelectionResults, baseline: str | None, seed: int = 0) -> DotPlot | None:
    """Plot the mean difference of each algorithm to the baseline, with a significance test."""
    if baseline not in results.algorithms:
        return None
    accuracies = {name: results.accuracies(name) for name in results.algorithms}
    found = compare_with_baseline(accuracies, baseline, seed)
    if max((each.pairs for each in found), default=0) < 2:
        return None  # a single pair is in the table
    found.sort(key=lambda each: -each.difference)
    quartiles = {}
    for each in found:
        own, theirs = accuracies[each.algorithm], accuracies[baseline]
        differences = [100 * (own[key] - theirs[key]) for key in theirs if key in own]
        quartiles[each.algorithm] = [float(q) for q in np.quantile(differences, (0.25, 0.75))]
    values = [value for pair in quartiles.values() for value in pair]
    axis = Axis.over([0.0, *values, *(100 * each.difference for each in found)], margin=0.02)
    title = algorithm_title(baseline)
    marks = [
        [
            Mark("zero", axis.percent(0.0)),
            Mark("span", *(axis.percent(q) for q in quartiles[each.algorithm])),
            Mark("dot", axis.percent(100 * each.difference)),
        ]
        for each in found
    ]
    rows = [
        Row.of(
            algorithm_title(each.algorithm),
            signed(100 * each.difference),
            p_value_text(each.p_value, 3),
            p_value_text(each.corrected, 3),
            f"{each.pairs}",
        )
        for each in found
    ]
    pairs = max(each.pairs for each in found)
    few = f" With {counted(pairs, 'pair')}, p cannot be below {2 ** (1 - pairs):.2g}."
    note = (
        f"Mean difference to {title} in points, paired by dataset, test domain and trial; p of a"
        f" two-sided sign-flip test (exact up to {MOST_ENUMERATED} pairs, else {DRAWS:,} random"
        f" signs, seed {seed}), and corrected for {counted(len(found), 'algorithm')} (Holm). Pairs"
        " of one dataset share training data: read a small p with care."
        f"{few if pairs <= 6 else ''} {what_the_numbers_are(results, results.datasets)}"
    )
    table = Table(
        f"Difference to {title}",
        (Column("Points", 1), Column("p", -1), Column("p\u00a0(Holm)", -1), Column("Pairs")),
        tuple(rows),
        notes=(note,),
        by=0,
    )
    key = [("dot", "mean difference"), ("span", "half of the pairs (quartiles)")]
    return DotPlot(table, "points", axis.percent_ticks(), marks, key)


def cost_plot(outcomes: Sequence[Run], baseline: str | None) -> DotPlot | None:
    """Plot the recorded time per step, relative to the baseline's matching run if there is one.

    Matching runs have the same data, network and, within a draw, mostly the same batch size, so the
    ratio is due to the algorithm.
    """
    steps: dict[str, dict[tuple[object, ...], float]] = {}
    for run in outcomes:
        seconds = run.seconds
        if run.status == "finished" and seconds and run.evaluations:
            place = (run.dataset, run.key.test_domains, run.hparams_seed, run.trial_seed)
            steps.setdefault(run.algorithm, {})[place] = 1000 * seconds / run.evaluations[-1].step
    if not steps:
        return None
    reference = steps.get(baseline, {}) if baseline else {}
    ratios = {
        name: [value / reference[place] for place, value in own.items() if place in reference]
        for name, own in steps.items()
    }
    relative = bool(reference) and len(steps) > 1
    shown = {n: r for n, r in ratios.items() if r} if relative else _lists(steps)
    quartiles = {n: [float(q) for q in np.quantile(v, (0.25, 0.5, 0.75))] for n, v in shown.items()}
    axis = Axis.over([0.0, *(1.02 * value for row in quartiles.values() for value in row)])
    zero = [Mark("zero", axis.percent(1.0))] if relative else []
    ordered = sorted(quartiles.items(), key=lambda row: row[1][1])
    marks = [
        [
            *zero,
            Mark("span", axis.percent(low), axis.percent(high)),
            Mark("dot", axis.percent(middle)),
        ]
        for _, (low, middle, high) in ordered
    ]
    rows = [
        Row.of(
            algorithm_title(name),
            *([f"{middle:.2f}"] if relative else []),
            f"{median(steps[name].values()):.2f}",
            f"{len(steps[name])}",
        )
        for name, (_, middle, _) in ordered
    ]
    against = f"×\u00a0{algorithm_title(baseline)}" if relative and baseline else ""
    how = (
        f"Median ratio to {algorithm_title(baseline)}'s run with the same dataset, test domain and"
        " seeds."
        if relative and baseline
        else "Median over runs."
    )
    note = (
        f"{how} Wall-clock time as the runs recorded it, evaluations included, divided by steps; it"
        " depends on the machine and on what else ran there."
    )
    table = Table(
        "Time of a step",
        (*([Column(against, -1)] if relative else []), Column("ms", -1), Column("Runs")),
        tuple(rows),
        notes=(note,),
        by=0,
    )
    key = [("dot", "median"), ("span", "half of the runs (quartiles)")]
    return DotPlot(table, against or "ms", axis.percent_ticks(), marks, key)


def _lists(steps: Mapping[str, Mapping[tuple[object, ...], float]]) -> dict[str, list[float]]:
    return {name: list(own.values()) for name, own in steps.items()}


def _by_dataset(results: SelectionResults) -> Accuracies:
    return {
        name: {
            (d.dataset, 0): round(found.mean, 1)
            for d in results.datasets
            if (found := average(d, name))
        }
        for name in results.algorithms
    }


def _by_test_domain(results: SelectionResults) -> Accuracies:
    return {
        name: {
            (d.dataset, at): round(found.mean, 1)
            for d in results.datasets
            for at in shown_domains(d)
            if (found := d.cells[name, at].estimate)
        }
        for name in results.algorithms
    }


def _rank_ticks(count: int) -> tuple[float, ...]:
    if count <= 6:
        return tuple(float(rank) for rank in range(1, max(count, 2) + 1))
    inner = [t for t in Axis.over([1, count]).ticks if 1 < t < count and count - t > 0.06 * count]
    return (1.0, *inner, float(count))
