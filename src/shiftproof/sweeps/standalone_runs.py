"""Results of standalone runs, made by `train` without a sweep.

Nothing was drawn or selected: a run has the settings that its user gave, and its model is the final
one.  Runs of one algorithm with different settings are named by the settings that differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.standardize import NONE, adaptation_title
from shiftproof.sweeps.results import Evaluation, Run, RunKey, positions
from shiftproof.sweeps.selection.base import Needs, StepSelector
from shiftproof.sweeps.stored_run import evaluations_of
from shiftproof.training.records import shown_measure

# The folder of every started run has one of these files beside config.json.
_TRACES = ("lock", "records.jsonl", "done.json")
# Settings that do not distinguish methods, or that have their own columns in tables.
_NO_SETTINGS = (
    "dataset", "fingerprint", "algorithm", "test_domains", "seed", "data_seed", "device",
    "evaluate", "eval_every", "hparams", "form", "standardize",
)  # fmt: skip
# Appended to the name of a dataset whose runs adapt to the test domain.
ADAPTED = " (adaptation)"


class LastStep(StepSelector):
    """Reports the last step of each run.

    It selects nothing, so it cannot compare draws of hyper-parameters, and is not registered.
    """

    name = "last-step"
    title = "last step of each run"
    needs = Needs(("test-in",), every_step=False)

    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return the same score for every run."""
        return 0.0


class RunEnd(LastStep):
    """Reports the final weights of each run, which may be averages over steps (`average`)."""

    name = "run-end"
    title = "weights that each run ends with"


def run_end(outcomes: Iterable[Run]) -> type[LastStep]:
    """Return the selector whose title describes the final weights of these runs."""
    averages = {outcome.config.get("average", "none") for outcome in outcomes}
    return LastStep if averages <= {"none"} else RunEnd


def find_standalone_runs(folder: Path) -> list[Path]:
    """Return the run folders at or below ``folder``."""
    configs = sorted(folder.rglob("config.json"))
    return [
        path.parent for path in configs if any((path.parent / name).exists() for name in _TRACES)
    ]


def standalone_runs(runs: Sequence[Run]) -> list[Run]:
    """Return runs under the names of their tables; the seed of a run is used as its trial seed."""
    _refuse_other_data(runs)
    domains = _domains(runs)
    titles = _titles(runs)
    return [
        replace(
            run,
            dataset=_dataset(run.config),
            algorithm=titles[run.folder],
            domains=(names := domains[run.config["dataset"]]),
            test_domains=positions(run.config["test_domains"], names, run.folder),
            evaluations=evaluations_of(run.records, names),
            standalone=True,
        )
        for run in runs
    ]


def kept_apart(outcomes: Sequence[Run]) -> list[list[Run]]:
    """Group runs that may share a table: those that adapt to the test domain, and the others."""
    groups: dict[bool, list[Run]] = {False: [], True: []}
    for outcome in outcomes:
        groups[outcome.dataset.endswith(ADAPTED)].append(outcome)
    return [group for group in groups.values() if group]


def runs_to_compare(outcomes: Sequence[Run]) -> set[RunKey]:
    """Return the runs that a comparison of the outcomes needs.

    It needs every algorithm on each test domain and seed that occurs.
    """
    wanted = set()
    for dataset in {outcome.dataset for outcome in outcomes}:
        keys = [outcome.key for outcome in outcomes if outcome.dataset == dataset]
        algorithms, seeds = {key.algorithm for key in keys}, {key.trial_seed for key in keys}
        held_out = {key.test_domains for key in keys if key.test_domains}
        for algorithm, tests, seed in product(algorithms, held_out, seeds):
            wanted.add(RunKey(dataset, algorithm, tests, 0, seed))
    return wanted


def _refuse_other_data(runs: Iterable[Run]) -> None:
    """Raise if runs used different data under the same name."""
    first: dict[tuple[Any, ...], Run] = {}
    for run in runs:
        frozen = tuple(sorted(run.config.get("extractor", {}).items()))
        key = (_dataset(run.config), run.config.get("data_seed"), frozen, _standardize(run.config))
        other = first.setdefault(key, run)
        if run.config.get("fingerprint") != other.config.get("fingerprint"):
            raise DataError(
                f"{other.folder} and {run.folder} were trained on different data under the name"
                f" {run.config['dataset']}; make a report of each"
            )


def _domains(runs: Iterable[Run]) -> dict[str, tuple[str, ...]]:
    """Return the domains of each dataset that its runs have measured, in order."""
    measured: dict[str, list[list[str]]] = {}
    for run in runs:
        names = dict.fromkeys(
            name.rpartition("/")[0]
            for record in run.records
            for name in shown_measure(record)[1]
            if "/" in name
        )
        names.update(dict.fromkeys(run.config["test_domains"]))
        measured.setdefault(run.config["dataset"], []).append(list(names))
    return {
        # The run that measured the most domains lists them in the dataset's own order.
        dataset: tuple(dict.fromkeys(n for ns in sorted(lists, key=len, reverse=True) for n in ns))
        for dataset, lists in measured.items()
    }


def _titles(runs: Iterable[Run]) -> dict[Path | None, str]:
    """Name each run after its algorithm and the settings that differ between runs."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        title = adaptation_title(run.config["algorithm"], _standardize(run.config))
        groups.setdefault((run.config["dataset"], title), []).append(run)
    titles = {}
    for (_, algorithm), group in groups.items():
        settings = {run.folder: _settings(run.config) for run in group}
        names = sorted({name for values in settings.values() for name in values})
        differing = [n for n in names if len({str(s.get(n)) for s in settings.values()}) > 1]
        for folder, values in settings.items():
            named = ", ".join(f"{name}={values[name]}" for name in differing if name in values)
            titles[folder] = f"{algorithm} ({named})" if named else algorithm
    return titles


def _standardize(config: Mapping[str, Any]) -> str:
    return str(config.get("standardize", NONE))


def _dataset(config: Mapping[str, Any]) -> str:
    """Return the name of the dataset; results with adaptation get separate tables."""
    return f"{config['dataset']}{'' if _standardize(config) == NONE else ADAPTED}"


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    general = {name: value for name, value in config.items() if name not in _NO_SETTINGS}
    return {**general, **config.get("hparams", {})}
