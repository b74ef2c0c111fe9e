"""Where the numbers come from: runs, settings, seeds, versions, and what is missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from shiftproof import __version__
from shiftproof.core.text import counted
from shiftproof.reporting.missing_runs import describe_missing
from shiftproof.reporting.page.values import Fact
from shiftproof.reporting.page.words import error_bars, selector_name
from shiftproof.reporting.table import NOTHING, Column, Row, Table
from shiftproof.reporting.words import joined, number_ranges
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title
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
    found = [Fact("Runs", _statuses(outcomes)), Fact("Read from", list(sources), code=True)]
    if notes:
        found.append(Fact("Notes on the files", list(notes)))
    if sweeps:
        lines = [", ".join(f"{k} {v}" for k, v in settings.items()) for settings in sweeps]
        found.append(Fact("Sweep", lines))
    if versions := _versions(outcomes):
        found.append(Fact("Made with", versions))
    found.append(Fact("Seeds", _seeds(outcomes)))
    if all_results:
        found.append(Fact("Chosen by", [selector_name(results) for results in all_results]))
        datasets = [d for results in all_results for d in results.datasets]
        found.append(Fact("Error bars", [_sentence(error_bars(datasets))]))
    failures = [f"{_titled(run)}: {run.failure}" for run in outcomes if run.failure]
    if failures:
        found.append(Fact("Failed", _some(failures)))
    for results in all_results:
        missing = [m for d in results.datasets for c in d.cells.values() for m in c.missing]
        if missing:
            lines = _some(describe_missing(missing))
            found.append(Fact(f"Not used ({selector_name(results)})", lines))
    made = [command] if command else []
    found.append(Fact("This page", [*made, f"shiftproof {__version__}"], code=True))
    return found


def settings_table(outcomes: Sequence[Run]) -> Table | None:
    """Return the settings of the runs on each dataset: the common value, or the distinct values."""
    by_dataset: dict[str, list[Mapping[str, object]]] = {}
    for outcome in outcomes:
        if outcome.config:
            by_dataset.setdefault(outcome.dataset, []).append(outcome.config)
    names = [
        name
        for name in SETTINGS
        if any(name in config for configs in by_dataset.values() for config in configs)
    ]
    if not names:
        return None
    rows = [
        Row.of(
            dataset_title(dataset),
            *(_values([c[name] for c in configs if name in c]) for name in names),
        )
        for dataset, configs in by_dataset.items()
    ]
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
    count = Counter(
        ", ".join(f"{name} {value}" for name, value in outcome.environment.items())
        for outcome in outcomes
        if outcome.environment
    )
    return [f"{text} ({counted(runs, 'run')})" for text, runs in count.most_common(MOST_LINES)]


def _seeds(outcomes: Sequence[Run]) -> list[str]:
    trials = number_ranges(outcome.trial_seed for outcome in outcomes)
    if all(outcome.standalone for outcome in outcomes):
        return [f"runs: {trials}"]
    draws = number_ranges(outcome.hparams_seed for outcome in outcomes)
    return [f"trials: {trials}", f"hyper-parameters: {draws} (0 is the defaults)"]


def _values(values: Sequence[object]) -> str:
    """Return the distinct values of a setting, or how many there are if they are many."""
    said = list(dict.fromkeys(v if isinstance(v, str) else json.dumps(v) for v in values))
    if not said:
        return NOTHING
    return joined(said) if len(said) <= 3 else f"{len(said)} values"


def _titled(run: Run) -> str:
    held_out = "+".join(run.domains[at] for at in run.test_domains)
    return (
        f"{algorithm_title(run.algorithm)} on {dataset_title(run.dataset)} without {held_out},"
        f" hyper-parameter seed {run.hparams_seed}, trial {run.trial_seed}"
    )


def _some(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {more} more like these"] if more > 0 else [])]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
