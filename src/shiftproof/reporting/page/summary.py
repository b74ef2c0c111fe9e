"""What a page says of a sweep: which algorithm is best, and where the numbers come from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shiftproof import __version__
from shiftproof.core.text import counted, plural
from shiftproof.reporting.page.evidence import Evidence
from shiftproof.reporting.page.sweeps import best_first, overall, shown_places
from shiftproof.reporting.page.values import Fact
from shiftproof.reporting.sweep import duration
from shiftproof.reporting.table import NOTHING, Column, Row, Table
from shiftproof.reporting.words import (
    capital,
    describe_missing,
    error_bars,
    joined,
    number_ranges,
    selector_name,
)
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.comparisons import compare_with_baseline
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.results import Run

MOST_LINES = 12
STATUSES = {
    "finished": "finished",
    "diverged": "diverged: never selected",
    "failed": "failed",
    "running": "not ended",
}
SETTINGS = {
    "backbone": "Network",
    "steps": "Steps",
    "eval_every": "Evaluated every",
    "holdout": "Held-out share",
    "device": "Device",
    "precision": "Precision",
    "average": "Weights",
    "fingerprint": "Data fingerprint",
}
WORDS = ("backbone", "device", "precision", "average", "fingerprint")


def facts(
    outcomes: Sequence[Run],
    all_results: Sequence[SelectionResults],
    sources: Sequence[str],
    command: str,
    sweeps: Sequence[Mapping[str, object]] = (),
    notes: Sequence[str] = (),
) -> list[Fact]:
    """Return what is known about how the numbers were made."""
    datasets = [dataset for results in all_results for dataset in results.datasets]
    failures = [f"{_titled(run)}: {run.failure}" for run in outcomes if run.failure]
    entries = {
        "Runs": _statuses(outcomes),
        "Read from": sources,
        "Notes on the files": notes,
        "Sweep": [", ".join(f"{k} {v}" for k, v in settings.items()) for settings in sweeps],
        "Made with": _versions(outcomes),
        "Seeds": _seeds(outcomes),
        "Chosen by": [selector_name(results) for results in all_results],
        "Error bars": [f"{capital(error_bars(datasets))}."] if datasets else [],
        "Failed": _some(failures),
    }
    for results in all_results:
        missing = [m for d in results.datasets for c in d.cells.values() for m in c.missing]
        entries[f"Not used ({selector_name(results)})"] = _some(describe_missing(missing))
    return _as_facts({**entries, "This page": _this_page(command)})


def _as_facts(entries: Mapping[str, Sequence[str]]) -> list[Fact]:
    code = ("Read from", "This page")
    return [Fact(name, list(lines), name in code) for name, lines in entries.items() if lines]


def provenance_facts(
    outcomes: Sequence[Run],
    evidence: Evidence,
    paths: Sequence[str],
    command: str,
    notes: Sequence[str] = (),
) -> list[Fact]:
    """Return the time, the model, the data and the versions."""
    first, config = outcomes[0], outcomes[0].config
    seconds = evidence.seconds or sum(run.seconds or 0.0 for run in outcomes)
    hparams = config.get("hparams") or {}
    settings = ", ".join(f"{name} {value}".replace("_", " ") for name, value in hparams.items())
    model = algorithm_title(first.algorithm) + f" ({settings})" * bool(settings)
    weights = ", trained with all classes counted alike; scores count rows"
    model += f", seed {first.trial_seed}{weights * (config.get('class_weight') == 'balanced')}"
    data, fingerprint = dataset_title(first.dataset), config.get("fingerprint")
    time = (
        f"{duration(seconds)} of training: {counted(len(outcomes), 'run')} without one"
        f" {evidence.noun} each{', and one on all' * bool(evidence.seconds)}."
    )
    return _as_facts(
        {
            "Time": [time],
            "Model": [model],
            "Data": [f"{data}, fingerprint {fingerprint}" if fingerprint else data],
            "Notes on the files": notes,
            "Made with": [*filter(None, [_environment(first)])],
            "Read from": paths,
            "This page": _this_page(command),
        }
    )


def _environment(run: Run) -> str:
    return ", ".join(f"{name} {value}" for name, value in run.environment.items())


def _this_page(command: str) -> list[str]:
    return [*filter(None, [command]), f"shiftproof {__version__}"]


def settings_table(outcomes: Sequence[Run]) -> Table | None:
    """Return the settings of the runs on each dataset: the common value, or the distinct values."""
    by_dataset: dict[str, list[Mapping[str, object]]] = {}
    for outcome in outcomes:
        if outcome.config:
            by_dataset.setdefault(outcome.dataset, []).append(outcome.config)
    known = {name for configs in by_dataset.values() for config in configs for name in config}
    names = [name for name in SETTINGS if name in known]
    if not names:
        return None
    rows = []
    for dataset, configs in by_dataset.items():
        texts = (_values([config[n] for config in configs if n in config]) for n in names)
        rows.append(Row.of(dataset_title(dataset), *texts))
    columns = [Column(SETTINGS[name], words=name in WORDS) for name in names]
    return Table("Settings", tuple(columns), tuple(rows), heads=("Dataset",))


def hparams_table(outcomes: Sequence[Run]) -> Table | None:
    """Return the hyper-parameters of standalone runs, which were given rather than drawn."""
    rows: dict[str, Row] = {}
    for outcome in outcomes:
        hparams = outcome.config.get("hparams")
        if outcome.standalone and hparams:
            text = ", ".join(f"{name} {_values([value])}" for name, value in hparams.items())
            name = algorithm_title(outcome.algorithm)
            rows.setdefault(name, Row.of(name, text))
    if not rows:
        return None
    return Table("Hyper-parameters", (Column("Values", words=True),), tuple(rows.values()))


def _statuses(outcomes: Sequence[Run]) -> list[str]:
    count = Counter(outcome.status for outcome in outcomes)
    lines = []
    for status, meaning in STATUSES.items():
        if status not in count:
            continue
        line = f"{count[status]:,} {meaning}"
        if status != "finished":
            who = Counter(algorithm_title(o.algorithm) for o in outcomes if o.status == status)
            line += f" ({', '.join(f'{name} {n}' for name, n in who.most_common(5))})"
        lines.append(line)
    return lines


def _versions(outcomes: Sequence[Run]) -> list[str]:
    count = Counter(filter(None, map(_environment, outcomes)))
    return [f"{text} ({counted(runs, 'run')})" for text, runs in count.most_common(MOST_LINES)]


def _seeds(outcomes: Sequence[Run]) -> list[str]:
    trials = number_ranges(outcome.trial_seed for outcome in outcomes)
    if all(outcome.standalone for outcome in outcomes):
        return [f"runs: {trials}"]
    draws = number_ranges(outcome.hparams_seed for outcome in outcomes)
    return [f"trials: {trials}", f"hyper-parameters: {draws} (0 is the defaults)"]


def _values(values: Sequence[object]) -> str:
    """Return the distinct values of a setting, or how many there are if they are many."""
    texts = list(dict.fromkeys(v if isinstance(v, str) else json.dumps(v) for v in values))
    if not texts:
        return NOTHING
    return joined(texts) if len(texts) <= 3 else f"{len(texts)} values"


def _titled(run: Run) -> str:
    held_out = "+".join(run.domains[at] for at in run.test_domains)
    return (
        f"{algorithm_title(run.algorithm)} on {dataset_title(run.dataset)} without {held_out},"
        f" hyper-parameter seed {run.hparams_seed}, trial {run.trial_seed}"
    )


def _some(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {more} more like these"] if more > 0 else [])]


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
