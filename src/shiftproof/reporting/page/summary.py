"""The first sentence of the page: which algorithm is best, by how much, and if by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shiftproof.core.text import counted, plural
from shiftproof.reporting.page.sweeps import best_first, overall, shown_places
from shiftproof.reporting.words import joined, number_ranges, selector_name
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.comparisons import compare_with_baseline
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.results import Run

MOST_NAMED = 3
# A difference with a larger p-value is reported as possible chance.
SIGNIFICANT = 0.05


class Lead(NamedTuple):
    """The lead of the first over the second, in points, and the p-value of the difference.

    ``points`` is the difference of averages over datasets, while ``paired`` and the p-value weight
    all pairs equally.  The two may differ in sign if datasets have different numbers of test
    domains.
    """

    first: str
    second: str
    points: float
    p_value: float
    pairs: int
    paired: float


def lead(results: SelectionResults) -> Lead | None:
    """Return the two best algorithms, and the test of their difference.

    The test is that of the tables, paired by dataset, test domain and trial.
    """
    if len(ranked := _ranked(results)) < 2:
        return None
    first, second = ranked[:2]
    accuracies = {name: results.accuracies(name) for name in (first, second)}
    points = _apart(results, first, second) or 0.0
    for test in compare_with_baseline(accuracies, second):
        return Lead(first, second, points, test.p_value, test.pairs, 100 * test.difference)
    return Lead(first, second, points, 1.0, 0, 0.0)


def _ranked(results: SelectionResults) -> list[str]:
    return [name for name in best_first(results) if overall(results, name) is not None]


def sentence(results: SelectionResults | None, baseline: str | None) -> str:
    """Summarise the result in one sentence."""
    if results is None or not results.has_numbers:
        return (
            "There is no accuracy on a test domain yet: no finished run has held a domain out and"
            " measured it."
        )
    if (best := lead(results)) is None:
        return _of_one(results)
    first, second = algorithm_title(best.first), algorithm_title(best.second)
    mean = f"{overall(results, best.first) or 0.0:.1f}% {_where(results)}"
    count = len(results.algorithms)
    whom, most = counted(count, "algorithm"), "more" if count == 2 else "most"
    beside = _beside(results, best, baseline)
    if round(best.points, 1) == 0:
        if count == 2:
            return f"{_by(results)}, {first} and {second} are equally accurate ({mean})."
        return f"{_by(results)}, {first} and {second} lead {whom} alike ({mean}){beside}."
    return (
        f"{_by(results)}, {first} is the {most} accurate of {whom} ({mean}), {best.points:.1f}"
        f" points above {second}{beside}; {_chance(best, bool(beside))}."
    )


def other_selections(all_results: Sequence[SelectionResults]) -> list[str]:
    """Say which algorithm is best under the other selectors, a short sentence each."""
    sentences = []
    for results in all_results[1:]:
        if best := lead(results):
            mean = f"{overall(results, best.first) or 0.0:.1f}%"
            first, second = algorithm_title(best.first), algorithm_title(best.second)
            text = f"{first} {mean}, {best.points:.1f} points above {second}; {_chance(best)}"
            if round(best.points, 1) == 0:
                text = f"{first} and {second} alike, {mean}"
            sentences.append(f"{_by(results)}: {text}.")
    return sentences


def title(results: SelectionResults | None, outcomes: Sequence[Run]) -> str:
    """Return the algorithms and datasets in a few words."""
    algorithms = list(dict.fromkeys(outcome.algorithm for outcome in outcomes))
    datasets = list(dict.fromkeys(outcome.dataset for outcome in outcomes))
    if results is not None:
        algorithms = list(results.algorithms)
        datasets = [d.dataset for d in results.datasets]
    who = _named([algorithm_title(name) for name in algorithms], "algorithms")
    what = _named([dataset_title(name) for name in datasets], "datasets")
    return f"{who} on {what}"


def figures(results: SelectionResults | None, outcomes: Sequence[Run]) -> list[tuple[str, str]]:
    """Return the numbers of runs, domains, trials and draws, each with its name."""
    finished = sum(outcome.status == "finished" for outcome in outcomes)
    runs = f"{finished:,}" if finished == len(outcomes) else f"{finished:,} of {len(outcomes):,}"
    entries = [(f"{plural('run', len(outcomes))} finished", runs)]
    if results is not None:
        domains = len(list(shown_places(results)))
        entries.append((plural("test domain", domains), f"{domains}"))
        trials = sorted({trial for d in results.datasets for trial in d.trials})
        draws = sorted({draw for d in results.datasets for draw in d.draws})
        several = "s" * (len(trials) > 1)
        standalone = all(outcome.standalone for outcome in outcomes)
        kind = f"seed{several} (" if standalone else f"trial{several} (seed{several} "
        entries.append((f"{kind}{number_ranges(trials)})", f"{len(trials)}"))
        if not standalone:
            entries.append((plural("hyper-parameter draw", len(draws)), f"{len(draws)}"))
    return entries


def _of_one(results: SelectionResults) -> str:
    """Say how accurate the only algorithm with a number on every test domain is."""
    if not (ranked := _ranked(results)):
        return (
            f"No algorithm has a number on every test domain ({_units(results)}) yet, so there"
            " is nothing to compare."
        )
    name = ranked[0]
    means = [
        (estimate.mean, domain_titles(d.dataset, d.domains)[at])
        for d, at in shown_places(results)
        if (estimate := d.cells[name, at].estimate)
    ]
    mean = f"{overall(results, name):.1f}%"
    does = f"is right on {mean} of the samples of"
    if results.measure != "accuracy":
        does = f"explains {mean} of the variance of the label in"
    text = f"{_by(results)}, {algorithm_title(name)} {does} a domain that it was not trained on"
    if len(means) == 1:
        return f"{text} ({means[0][1]})."
    (low, worst), (high, best) = min(means), max(means)
    return (
        f"{text}, on average over {_units(results)}: from {low:.1f}% ({worst}) to {high:.1f}%"
        f" ({best})."
    )


def _chance(best: Lead, first_of_two: bool = False) -> str:
    """Say whether the difference may be chance."""
    pairs = counted(best.pairs, "pair of test domain and trial")
    # The smallest p-value possible with this many pairs.
    if 2 ** (1 - best.pairs) > SIGNIFICANT:
        few = "are too few" if best.pairs > 1 else "is too little"
        return f"{pairs} {few} to tell that from chance"
    if best.paired < 0:
        return (
            f"but over {pairs} {algorithm_title(best.second)} is ahead on average, so that the two"
            " cannot be told apart"
        )
    which = "the first difference" if first_of_two else "the difference"
    test = f"p = {best.p_value:.2g}, sign-flip test over {pairs}"
    if best.p_value <= SIGNIFICANT:
        return f"{which} is hardly chance ({test})"
    return f"{which} may be chance ({test}), so that the two cannot be told apart"


def _beside(results: SelectionResults, best: Lead, baseline: str | None) -> str:
    """Compare the best with the baseline, if the baseline is neither of the two."""
    if baseline not in results.algorithms or baseline in (best.first, best.second):
        return ""
    points = _apart(results, best.first, baseline)
    return "" if points is None else f" and {points:.1f} above {algorithm_title(baseline)}"


def _apart(results: SelectionResults, first: str, second: str) -> float | None:
    """Return the difference of two averages as printed, so that the reader can check it."""
    one, two = overall(results, first), overall(results, second)
    return None if one is None or two is None else round(one, 1) - round(two, 1)


_BY = {
    "last-step": "At the last step",
    "run-end": "With the weights that runs end with",
    "retrained": "Retrained on all samples",
}


def _by(results: SelectionResults) -> str:
    return _BY.get(results.selector.name, f"Selected by {selector_name(results)}")


def _where(results: SelectionResults) -> str:
    """Say what a mean is taken over."""
    (dataset, at), *others = shown_places(results)
    if others:
        return f"on average over {_units(results)}"
    domain = domain_titles(dataset.dataset, dataset.domains)[at]
    return f"on test domain {domain} of {dataset_title(dataset.dataset)}"


def _units(results: SelectionResults) -> str:
    count = len(list(shown_places(results)))
    names = [dataset_title(d.dataset) for d in results.datasets]
    return f"{counted(count, 'test domain')} of {_named(names, 'datasets')}"


def _named(names: Sequence[str], things: str) -> str:
    return joined(names) if len(names) <= MOST_NAMED else f"{len(names)} {things}"
