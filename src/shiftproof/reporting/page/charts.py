"""The charts of a sweep: ranks, differences to the baseline, costs and learning curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from shiftproof.core.text import counted
from shiftproof.reporting.page.sweeps import average, best_first, shown_domains, shown_places
from shiftproof.reporting.page.values import (
    Axis,
    DotPlot,
    Frame,
    Line,
    Mark,
    Panel,
    Panels,
    PlotRow,
    signed,
)
from shiftproof.reporting.table import NOTHING, Column, Row, Table
from shiftproof.reporting.words import (
    capital,
    joined,
    p_value_text,
    selector_name,
    what_the_numbers_are,
)
from shiftproof.sweeps.aggregate import DatasetResults, SelectionResults
from shiftproof.sweeps.comparisons import (
    DRAWS,
    LEVEL,
    MOST_ENUMERATED,
    compare_ranks,
    compare_with_baseline,
    competition_ranks,
)
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.selection.base import mean_if_all

HELD_OUT_WITHIN = (
    "While it was trained, each of these domains was held out in turn to choose its settings, and"
    " these are the scores there: a little too good for a new domain, since settings were chosen by"
    " them."
)
SET_ASIDE = (
    "On rows of the training domains that were set aside: a new domain differs more, so expect less"
    " there."
)


def rank_plot(results: SelectionResults) -> DotPlot | None:
    """Plot the ranks of each algorithm over datasets or, with one dataset, over test domains.

    Return None for fewer than three algorithms: ranks of two say no more than their difference.
    """
    datasets = len(results.datasets)
    accuracies = _printed_accuracies(results)
    unit = "dataset" if datasets > 1 else "test domain"
    units = sorted({key for row in accuracies.values() for key in row})
    whole = [name for name, row in accuracies.items() if len(row) == len(units)]
    if len(whole) < 3 or len(units) < 2:
        return None
    compared = {name: accuracies[name] for name in whole}
    by_unit = [competition_ranks([compared[name][unit] for name in whole]) for unit in units]
    ranks = dict(zip(whole, zip(*by_unit, strict=True), strict=True))
    whole.sort(key=lambda name: fmean(ranks[name]))
    notes = [
        f"Rank 1 is the highest {results.measure} as printed, over {counted(len(units), unit)};"
        " equal ones share the smallest rank. The line runs from the best to the worst rank: it is"
        f" no confidence interval. {what_the_numbers_are(results, results.datasets)}"
    ]
    if lacking := len(results.algorithms) - len(whole):
        notes.append(f"{counted(lacking, 'algorithm')} without a number on each {unit}: not ranked")
    key = [("tick", f"rank on one {unit}"), ("dot", "mean rank"), ("span", "best to worst")]
    alike: set[str] = set()
    axis = Axis(1, max(len(whole), 2), _rank_ticks(len(whole)))
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
    rows = []
    for name in whole:
        mean, worst = fmean(ranks[name]), max(ranks[name])
        cells = (f"{mean:.1f}", f"{median(ranks[name]):g}", f"{worst}")
        marks = [
            *([Mark("band", axis.low, axis.high)] if name in alike else []),
            Mark("span", min(ranks[name]), worst),
            *(Mark("tick", rank) for rank in sorted(set(ranks[name]))),
            Mark("dot", mean),
        ]
        rows.append(PlotRow(Row.of(algorithm_title(name), *cells), marks))
    columns = [Column(title, -1) for title in ("Mean", "Median", "Worst")]
    title = f"Ranks over {counted(len(units), unit)}"
    return DotPlot.of(title, columns, rows, "rank", axis, key, notes=tuple(notes), by=0)


def _printed_accuracies(results: SelectionResults) -> dict[str, dict[tuple[str, int], float]]:
    """Return rounded accuracies: averages by dataset or, of one dataset, those by test domain."""
    places = [(d, 0) for d in results.datasets]
    of_domains = len(places) == 1
    return {
        name: {
            (dataset.dataset, at): round(estimate.mean, 1)
            for dataset, at in (shown_places(results) if of_domains else places)
            if (
                estimate := dataset.cells[name, at].estimate
                if of_domains
                else average(dataset, name)
            )
        }
        for name in results.algorithms
    }


def _rank_ticks(count: int) -> tuple[float, ...]:
    if count <= 6:
        return tuple(float(rank) for rank in range(1, max(count, 2) + 1))
    inner = [t for t in Axis.over([1, count]).ticks if 1 < t < count and count - t > 0.06 * count]
    return (1.0, *inner, float(count))


def baseline_plot(results: SelectionResults, baseline: str | None, seed: int = 0) -> DotPlot | None:
    """Plot the mean difference of each algorithm to the baseline, with a significance test."""
    if baseline not in results.algorithms:
        return None
    accuracies = {name: results.accuracies(name) for name in results.algorithms}
    compared = compare_with_baseline(accuracies, baseline, seed)
    pairs = max((test.pairs for test in compared), default=0)
    if pairs < 2:
        return None  # a single pair is in the table
    compared.sort(key=lambda test: -test.difference)
    rows = []
    for test in compared:
        ours, theirs = accuracies[test.algorithm], accuracies[baseline]
        differences = [100 * (ours[key] - theirs[key]) for key in theirs if key in ours]
        low, high = (float(q) for q in np.quantile(differences, (0.25, 0.75)))
        points = 100 * test.difference
        p_values = (p_value_text(test.p_value, 3), p_value_text(test.corrected, 3))
        row = Row.of(algorithm_title(test.algorithm), signed(points), *p_values, f"{test.pairs}")
        rows.append(PlotRow(row, [Mark("zero", 0.0), Mark("span", low, high), Mark("dot", points)]))
    title = algorithm_title(baseline)
    few = f" With {counted(pairs, 'pair')}, p cannot be below {2 ** (1 - pairs):.2g}."
    note = (
        f"Mean difference to {title} in points, paired by dataset, test domain and trial; p of a"
        f" two-sided sign-flip test (exact up to {MOST_ENUMERATED} pairs, else {DRAWS:,} random"
        f" signs, seed {seed}), and corrected for {counted(len(compared), 'algorithm')} (Holm)."
        " Pairs of one dataset share training data: read a small p with care."
        f"{few if pairs <= 6 else ''} {what_the_numbers_are(results, results.datasets)}"
    )
    columns = (Column("Points", 1), Column("p", -1), Column("p\u00a0(Holm)", -1), Column("Pairs"))
    ends = [m.end if m.kind == "span" else m.start for row in rows for m in row.marks]
    axis = Axis.over([*ends, *(m.start for row in rows for m in row.marks)], margin=0.02)
    key = [("dot", "mean difference"), ("span", "half of the pairs (quartiles)")]
    return DotPlot.of(
        f"Difference to {title}", columns, rows, "points", axis, key, notes=(note,), by=0
    )


def cost_plot(outcomes: Sequence[Run], baseline: str | None) -> DotPlot | None:
    """Plot the recorded time per step, relative to the baseline's matching run if there is one.

    Matching runs have the same data, network and, within a draw, mostly the same batch size, so the
    ratio is due to the algorithm.
    """
    steps: dict[str, dict[tuple[object, ...], float]] = {}
    for run in outcomes:
        seconds = run.seconds
        if run.status == "finished" and seconds and run.evaluations:
            key = (run.dataset, run.key.test_domains, run.hparams_seed, run.trial_seed)
            steps.setdefault(run.algorithm, {})[key] = 1000 * seconds / run.evaluations[-1].step
    if not steps:
        return None
    reference = steps.get(baseline, {}) if baseline else {}
    against = f"×\u00a0{algorithm_title(baseline)}" if reference and baseline else ""
    against *= len(steps) > 1
    rows = []
    for name, times in steps.items():
        values = list(times.values())
        if against:
            values = [value / reference[key] for key, value in times.items() if key in reference]
        if not values:
            continue
        low, middle, high = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
        cells = [f"{middle:.2f}"] * bool(against)
        cells += [f"{median(times.values()):.2f}", f"{len(times)}"]
        zero = [Mark("zero", 1.0)] * bool(against)
        marks = [*zero, Mark("span", low, high), Mark("dot", middle)]
        rows.append(PlotRow(Row.of(algorithm_title(name), *cells), marks))
    rows.sort(key=lambda row: row.marks[-1].start)
    how = (
        f"Median ratio to {algorithm_title(baseline)}'s run with the same dataset, test domain and"
        " seeds."
        if against and baseline
        else "Median over runs."
    )
    note = (
        f"{how} Wall-clock time as the runs recorded it, evaluations included, divided by steps; it"
        " depends on the machine and on what else ran there."
    )
    columns = [Column(against, -1)] * bool(against) + [Column("ms", -1), Column("Runs")]
    axis = Axis.over([0.0, *(1.02 * mark.end for row in rows for mark in row.marks)])
    keys = [("dot", "median"), ("span", "half of the runs (quartiles)")]
    return DotPlot.of(
        "Time of a step", columns, rows, against or "ms", axis, keys, notes=(note,), by=0
    )


def training_plot(accuracies: Mapping[str, float], note: str) -> DotPlot:
    """Return one dot per training domain, and their mean."""
    values = [100 * accuracy for accuracy in accuracies.values()]
    low, high = min(values), max(values)
    axis = Axis.over([low, high, min(100.0, high + 2), max(0.0, low - 2)], margin=0.02)
    lines = [(name, "dot", value) for name, value in zip(accuracies, values, strict=True)]
    rows = [
        PlotRow(Row.of(name, f"{value:.1f}"), [Mark(kind, value)], f"{name}: {value:.1f}%")
        for name, kind, value in (*lines, ("mean", "diamond", fmean(values)))
    ]
    title, columns = "Accuracy on the training domains", [Column("Accuracy (%)", 1)]
    heads = ("Domain",)
    return DotPlot.of(
        title, columns, rows, "Accuracy (%)", axis, notes=(note,), heads=heads, foot=1
    )


def training_sentence(accuracies: Mapping[str, float], note: str) -> str:
    """Say how accurate the model is on its training domains, since no other is left to test."""
    how = (
        "each held out while settings were chosen" if note == HELD_OUT_WITHIN else "set-aside rows"
    )
    return (
        f"This model was trained on all {len(accuracies)} domains, so no domain is left to test it"
        f" on. On its training domains ({how}) it is right on {fmean(accuracies.values()):.1%} of"
        f" the rows, from {min(accuracies.values()):.1%} to {max(accuracies.values()):.1%}."
    )


# With more algorithms than this, only the best and the baseline are drawn.
MOST_DRAWN = 4
KINDS = {
    "test": "test domain",
    "validation": "training domains, samples not trained on (mean)",
    "training": "training domains, samples trained on (mean)",
}
Points = list[tuple[int, float]]


class _Drawn(NamedTuple):
    """A run to draw: its curves in percent by kind, and the reported step."""

    algorithm: str
    test_domain: str
    run: Run
    curves: dict[str, Points]
    step: int


def learning_curves(results: SelectionResults, baseline: str | None) -> list[Panels]:
    """Return a set of panels for each dataset whose runs were evaluated more than once."""
    charts = []
    for dataset in results.datasets:
        names = [n for n in best_first(results) if any(c.selections for c in dataset.row(n))]
        chosen = names[:MOST_DRAWN]
        if baseline in names and baseline not in chosen:
            chosen[-1] = str(baseline)
        drawn = list(_selected(dataset, chosen))
        if any(len(points) > 1 for run in drawn for points in run.curves.values()):
            charts.append(_panels(results, dataset, drawn, len(names)))
    return charts


def _selected(dataset: DatasetResults, names: Sequence[str]) -> Iterator[_Drawn]:
    titles = domain_titles(dataset.dataset, dataset.domains)
    for name in names:
        for at in shown_domains(dataset):
            if selections := dataset.cells[name, at].selections:
                first = selections[min(selections)]
                run = first.run
                yield _Drawn(algorithm_title(name), titles[at], run, curves_of(run, at), first.step)


def curves_of(run: Run, test_domain: int) -> dict[str, Points]:
    """Return the curves in percent by kind, without kinds that were never measured."""
    trained = [at for at in range(len(run.domains)) if at not in run.test_domains]
    curves: dict[str, Points] = {}
    for evaluation in run.evaluations:
        values = {
            "test": evaluation.inside[test_domain],
            "validation": mean_if_all(evaluation.outside[at] for at in trained),
            "training": mean_if_all(evaluation.inside[at] for at in trained),
            **{f"extra:{name}": value for name, value in evaluation.extras},
        }
        for kind, value in values.items():
            if value is not None:
                curves.setdefault(kind, []).append((evaluation.step, 100 * value))
    return curves


def _panels(
    results: SelectionResults, dataset: DatasetResults, drawn: Sequence[_Drawn], there: int
) -> Panels:
    points = [point for run in drawn for curve in run.curves.values() for point in curve]
    values = [value for _, value in points]
    # R² has no lower bound.
    within = (0.0 if min(values) >= 0 else -math.inf, 100.0)
    steps = Axis.over([0, *(step for step, _ in points)], count=3)
    frame = Frame(steps, Axis.around(values, 4, within))
    titles = list(dict.fromkeys(run.algorithm for run in drawn))
    trial = min(dataset.trials)
    notes = [
        f"{capital(dataset.measure)} (%) over steps; {selector_name(results)};"
        f" {'seed' if dataset.standalone else 'trial'} {trial}."
        " The ring marks the step that the tables report."
    ]
    if len(titles) < there:
        notes.append(f"Drawn are {joined(titles)}, of {counted(there, 'algorithm')}.")
    names = dict.fromkeys(kind for run in drawn for kind in run.curves)
    return Panels(
        dataset_title(dataset.dataset),
        [_panel(run, frame) for run in drawn],
        _across(len({run.test_domain for run in drawn}), len(drawn)),
        *("Step", f"{capital(dataset.measure)} (%)"),
        frame,
        [(_class(kind), _name(kind)) for kind in sorted(names, key=_order)],
        notes,
        _values(dataset, drawn),
    )


def _across(domains: int, panels: int) -> int:
    """Return the number of panels per row, so that an algorithm's panels stay together."""
    if domains == 1:
        return min(panels, 4)
    return {2: 4, 3: 3, 4: 4}.get(domains, 3 if domains % 3 == 0 else 4)


def _panel(run: _Drawn, frame: Frame) -> Panel:
    kinds = sorted(run.curves, key=_order)
    lines = [Line(_class(kind), frame.path(run.curves[kind])) for kind in reversed(kinds)]
    test = dict(run.curves.get("test", []))
    selected = frame.place(run.step, test[run.step]) if run.step in test else None
    changes = "; ".join(
        f"{_name(kind)} from {run.curves[kind][0][1]:.1f}% to {run.curves[kind][-1][1]:.1f}%"
        for kind in kinds
    )
    # For readers who cannot see the panel.
    words = (
        f"{run.algorithm}, test domain {run.test_domain}: {changes}; reported at step {run.step:,}"
    )
    return Panel(f"{run.algorithm} · {run.test_domain}", words, lines, selected)


def _values(dataset: DatasetResults, drawn: Sequence[_Drawn]) -> Table:
    """Return the values of the panels at the reported step, and at the end."""
    names = {"validation": "Validation", "training": "Training", "test": "Test"}
    kinds = [k for k in names if k == "test" or any(k in run.curves for run in drawn)]
    rows = []
    for run in drawn:
        at_step = {kind: dict(points).get(run.step) for kind, points in run.curves.items()}
        last = run.curves.get("test", [(0, None)])[-1][1]
        cells = [
            run.test_domain,
            *([] if run.run.standalone else [str(run.run.hparams_seed)]),
            f"{run.step}",
            *(
                NOTHING if value is None else f"{value:.1f}"
                for value in (*map(at_step.get, kinds), last)
            ),
        ]
        rows.append(Row.of(run.algorithm, *cells))
    columns = [
        Column("Test domain", words=True),
        *([] if dataset.standalone else [Column("Hyper-parameter seed")]),
        Column("Reported step"),
        *(Column(names[kind], 1) for kind in kinds),
        Column("Test at the end", 1),
    ]
    title = f"{dataset_title(dataset.dataset)}: the runs drawn, {dataset.measure} in %"
    return Table(title, tuple(columns), tuple(rows))


def _class(kind: str) -> str:
    return "extra" if kind.startswith("extra:") else kind


def _name(kind: str) -> str:
    return KINDS.get(kind) or kind.removeprefix("extra:")


def _order(kind: str) -> int:
    return [*KINDS, kind].index(kind)
