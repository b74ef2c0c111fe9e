"""A sweep's tables before they have a format: numbers as printed, captions and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from shiftproof.sweeps.aggregate import DIVERGED, DatasetResults, Estimate, Hole, SelectionResults
from shiftproof.sweeps.domainbed.logs import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.ranking import competition_ranks, rank_algorithms
from shiftproof.sweeps.significance import DRAWS, MOST_ENUMERATED, compare_with_baseline

NOTHING = "–"
ERROR_BAR = "population standard deviation over trials / √trials"
# Widths of DomainBed's columns.
DATASET_WIDTH, AVERAGES_WIDTH = 20, 25


@dataclass(frozen=True)
class Entry:
    """A number as printed, its error bar, and a sign that something is to be known about it."""

    text: str = NOTHING
    error: str = ""
    sign: str = ""

    @property
    def value(self) -> float | None:
        """The number as printed, so that what looks equal is equal."""
        return None if self.text == NOTHING else float(self.text)


@dataclass(frozen=True)
class Sheet:
    """A table before it has a format.

    ``better`` says of each column whether high (1) or low (-1) numbers are good, or neither (0).
    """

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Entry, ...]]
    better: tuple[int, ...]
    caption: str
    notes: tuple[str, ...] = ()
    width: int = AVERAGES_WIDTH
    baseline: str | None = None


def sheets(
    results: SelectionResults, baseline: str | None = "erm", seed: int = 0
) -> Iterator[Sheet]:
    """Yield a sheet a dataset, then averages, ranks and the comparison with the baseline.

    ``seed`` is that of the comparison's random signs.
    """
    baseline = baseline if baseline in results.algorithms else None
    title = baseline and algorithm_title(baseline)
    for dataset in results.datasets:
        yield _dataset_sheet(results, dataset, title)
    if not results.has_numbers:
        return
    yield _averages_sheet(results, title)
    if len(results.algorithms) > 1:
        yield _ranking_sheet(results, title)
        if baseline is not None:
            yield _comparison_sheet(results, baseline, seed)


def marks(values: Sequence[float | None], better: int, baseline: int | None) -> list[str]:
    """Return ``best``, ``second``, ``worse`` (than the baseline) or nothing for each value.

    Equal values share a mark; where several are best, none is second.

    >>> marks([97.8, 98.1, 98.1, 97.5, None], better=1, baseline=0)
    ['', 'best', 'best', 'worse', '']
    """
    present = [better * value for value in values if value is not None]
    if not better or len(present) < 2:
        return [""] * len(values)
    ranks = iter(competition_ranks(present))
    reference = None if baseline is None else values[baseline]
    found = []
    for value in values:
        rank = 0 if value is None else next(ranks)
        worse = value is not None and reference is not None and better * (value - reference) < 0
        found.append({1: "best", 2: "second"}.get(rank, "worse" if worse else ""))
    return found


def _dataset_sheet(
    results: SelectionResults, dataset: DatasetResults, baseline: str | None
) -> Sheet:
    rows = {}
    # Where there is no number at all, the notes alone say why.
    for algorithm in results.algorithms * dataset.has_numbers:
        cells = [
            _entry(cell.estimate, len(cell.trials), cell.incomplete, dataset.alone)
            for cell in dataset.row(algorithm)
        ]
        average = _number(dataset.row_average(algorithm), not dataset.complete(algorithm))
        rows[algorithm_title(algorithm)] = (*cells, average)
    columns = (*domain_titles(dataset.dataset, dataset.domains), "Avg")
    return Sheet(
        f"Dataset: {dataset_title(dataset.dataset)},"
        f" model selection method: {results.selector.title}",
        columns,
        rows,
        (1,) * len(columns),
        _caption(results, [dataset]),
        _notes(dataset, rows),
        DATASET_WIDTH,
        baseline,
    )


def _averages_sheet(results: SelectionResults, baseline: str | None) -> Sheet:
    rows = {}
    for algorithm in results.algorithms:
        cells = [
            _entry(d.average(algorithm), len(d.trials), not d.complete(algorithm), d.alone)
            for d in results.datasets
        ]
        incomplete = not all(d.complete(algorithm) for d in results.datasets)
        average = _number(results.average(algorithm), incomplete)
        rows[algorithm_title(algorithm)] = (*cells, average)
    columns = (*(dataset_title(d.dataset) for d in results.datasets), "Avg")
    return Sheet(
        f"Averages, model selection method: {results.selector.title}",
        columns,
        rows,
        (1,) * len(columns),
        _caption(results, results.datasets) + " Over test domains within a trial, then trials.",
        _signs_explained(rows, "above"),
        AVERAGES_WIDTH,
        baseline,
    )


def _ranking_sheet(results: SelectionResults, baseline: str | None) -> Sheet:
    accuracies = {
        algorithm: {
            # As printed, like the paper's: what looks equal is equal.
            d.dataset: round(average.mean, 1)
            for d in results.datasets
            if d.covers(algorithm) and (average := d.average(algorithm))
        }
        for algorithm in results.algorithms
    }
    ranks = rank_algorithms(accuracies)
    rows = {}
    for algorithm in results.algorithms:
        if found := ranks.get(algorithm):
            entries = (f"{found.mean:.1f}", f"{found.median:g}", f"{found.worst}")
            rows[algorithm_title(algorithm)] = tuple(map(Entry, entries))
        else:
            rows[algorithm_title(algorithm)] = (Entry(),) * 3
    lacking = any(algorithm not in ranks for algorithm in results.algorithms)
    return Sheet(
        f"Ranking, model selection method: {results.selector.title}",
        ("Mean", "Median", "Worst"),
        rows,
        (-1, -1, -1),
        f"Ranks by the averages as printed above, over {len(results.datasets)}"
        f" {_plural('dataset', results.datasets)}; equal ones share the smallest rank."
        f" {_caption(results, results.datasets)}",
        (f"{NOTHING} lacks a test domain of a dataset and is not ranked there",) * lacking,
        AVERAGES_WIDTH,
        baseline,
    )


def _comparison_sheet(results: SelectionResults, baseline: str, seed: int) -> Sheet:
    accuracies = {name: results.accuracies(name) for name in results.algorithms}
    compared = {c.algorithm: c for c in compare_with_baseline(accuracies, baseline, seed)}
    rows = {}
    for algorithm in results.algorithms:
        if algorithm == baseline:
            continue
        if found := compared.get(algorithm):
            p_values = (f"{found.p_value:.4f}", f"{found.corrected:.4f}")
            texts = (f"{100 * found.difference:+.1f}", *p_values, f"{found.pairs}")
            rows[algorithm_title(algorithm)] = tuple(map(Entry, texts))
        else:
            rows[algorithm_title(algorithm)] = (Entry(),) * 4
    return Sheet(
        f"Against {algorithm_title(baseline)}, model selection method: {results.selector.title}",
        ("Difference", "p", "p (Holm)", "Pairs"),
        rows,
        (0, 0, 0, 0),
        f"Mean difference to {algorithm_title(baseline)} in points, paired by dataset, test domain"
        f" and trial; two-sided sign-flip test, exact up to {MOST_ENUMERATED} pairs, else {DRAWS:,}"
        f" random assignments (seed {seed}); Holm's correction over {len(compared)}"
        f" {_plural('algorithm', list(compared))}. Pairs of one dataset share training data:"
        f" read a small p with care. {_caption(results, results.datasets)}",
    )


def _entry(found: Estimate | None, trials: int, incomplete: bool, alone: bool) -> Entry:
    """Print a number; a run by itself has no error bar, where DomainBed's tables have 0.0."""
    if found is None:
        return Entry()
    sign = f"({found.trials}/{trials})" if found.trials < trials else "*" * incomplete
    error = "" if alone and found.trials == 1 else f"{found.error:.1f}"
    return Entry(f"{found.mean:.1f}", error, sign)


def _number(value: float | None, incomplete: bool) -> Entry:
    return Entry() if value is None else Entry(f"{value:.1f}", sign="*" * incomplete)


def _caption(results: SelectionResults, datasets: Sequence[DatasetResults]) -> str:
    """Say what the numbers are: split, selector, seeds, trials, draws, error bar."""
    sizes: dict[str, list[str]] = {}
    for dataset in datasets:
        text = (
            f"{len(dataset.trials)} {_plural('trial', dataset.trials)}"
            f" ({_plural('seed', dataset.trials)} {number_ranges(dataset.trials)}),"
            f" {len(dataset.draws)} hyper-parameter {_plural('draw', dataset.draws)}"
            f" ({_plural('seed', dataset.draws)} {number_ranges(dataset.draws)})"
        )
        sizes.setdefault(text, []).append(dataset_title(dataset.dataset))
    several = len(sizes) > 1
    said = "; ".join(f"{', '.join(d)}: {text}" if several else text for text, d in sizes.items())
    single = all(dataset.alone and len(dataset.trials) == 1 for dataset in datasets)
    bars = "one run each, hence no error bars" if single else f"+/- {ERROR_BAR}"
    return (
        f"Accuracy (%) on the test domain's in part (test-in), selector {results.selector.name};"
        f" {said}; {bars}."
    )


def _notes(dataset: DatasetResults, rows: Mapping[str, Sequence[Entry]]) -> tuple[str, ...]:
    nothing = () if rows else ("no number: no run can be selected from",)
    holes = [
        hole._replace(test_domains=_titled(hole, dataset))
        for cell in dataset.cells.values()
        for hole in cell.holes
    ]
    holes.sort(key=lambda hole: hole.reason == DIVERGED)  # what is yet to come first
    return (*nothing, *_signs_explained(rows, "below"), *describe_holes(holes))


def _signs_explained(rows: Mapping[str, Sequence[Entry]], where: str) -> tuple[str, ...]:
    signs = {entry.sign for row in rows.values() for entry in row}
    few = f"(n/m) n of m trials; the others lack runs that are named {where}"
    star = f"* over the runs there are; those that are not are named {where}"
    return (few,) * any(sign.startswith("(") for sign in signs) + (star,) * ("*" in signs)


def _titled(hole: Hole, dataset: DatasetResults) -> tuple[str, ...]:
    titles = dict(
        zip(dataset.domains, domain_titles(dataset.dataset, dataset.domains), strict=True)
    )
    return tuple(titles[name] for name in hole.test_domains)


def describe_holes(holes: Iterable[Hole]) -> list[str]:
    """Name runs that could not be used, those with something in common in one line.

    >>> describe_holes(Hole("x", "a", ("u",), draw, 0, "missing") for draw in (0, 1, 2, 4))
    ['missing: a on x, test domain u, hyper-parameter seeds 0-2, 4, trial 0']
    """
    seeds: dict[tuple[str, str, str, tuple[str, ...]], set[tuple[int, int]]] = {}
    for hole in holes:
        run = (hole.reason, hole.dataset, hole.algorithm, hole.test_domains)
        seeds.setdefault(run, set()).add((hole.trial_seed, hole.hparams_seed))
    tests: dict[tuple[str, str, str, frozenset[tuple[int, int]]], list[str]] = {}
    for (reason, dataset, algorithm, domains), found in seeds.items():
        runs = tests.setdefault((reason, dataset, algorithm, frozenset(found)), [])
        runs.append("+".join(domains))
    names: dict[tuple[str, str, tuple[str, ...], frozenset[tuple[int, int]]], list[str]] = {}
    for (reason, dataset, algorithm, which), held_out in tests.items():
        key = (reason, dataset, tuple(sorted(held_out)), which)
        names.setdefault(key, []).append(algorithm_title(algorithm))
    return [
        f"{reason}: {', '.join(algorithms)} on {dataset_title(dataset)}, test"
        f" {_plural('domain', held_out)} {', '.join(held_out)}, {_describe_seeds(which)}"
        for (reason, dataset, held_out, which), algorithms in names.items()
    ]


def number_ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers shortly.

    >>> number_ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    ordered = sorted(set(numbers))
    runs = groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return ", ".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else f"{s[0]}" for s in spans)


def _describe_seeds(which: Iterable[tuple[int, int]]) -> str:
    by_trial: dict[int, list[int]] = {}
    for trial, draw in sorted(which):
        by_trial.setdefault(trial, []).append(draw)
    trials: dict[str, list[int]] = {}
    for trial, draws in by_trial.items():
        text = f"hyper-parameter {_plural('seed', draws)} {number_ranges(draws)}"
        trials.setdefault(text, []).append(trial)
    return " and ".join(
        f"{text}, {_plural('trial', found)} {number_ranges(found)}"
        for text, found in trials.items()
    )


def _plural(word: str, things: Sequence[object]) -> str:
    return word + "s" * (len(things) != 1)
