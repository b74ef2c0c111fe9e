"""Where the numbers come from: runs, settings, seeds, versions, and what is missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from shiftproof import __version__
from shiftproof.core.text import counted
from shiftproof.reporting.page.evidence import Evidence
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
    settings = ", ".join(
        f"{name} {value}".replace("_", " ") for name, value in (config.get("hparams") or {}).items()
    )
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
