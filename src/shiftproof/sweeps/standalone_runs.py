"""Runs of ``shiftproof train``, which no sweep has planned: what can be said of them.

Nothing was drawn and nothing chosen: a run has the settings that its user gave, and its model is
that of the last step.  Runs of one algorithm under several settings are told apart by what differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.sweeps.results import Evaluation, RunKey, RunOutcome, outcome_of_run, read_object
from shiftproof.sweeps.selection.base import AtLastStep, Needs
from shiftproof.training.records import read_records

# Beside config.json in the folder of every run that was ever begun.
_TRACES = ("lock", "records.jsonl", "done.json")
# What does not make one run better than another, or is what a table has its columns for.
_NO_SETTINGS = (
    "dataset", "fingerprint", "algorithm", "test_domains", "seed", "data_seed", "device",
    "evaluate", "eval_every", "hparams", "form",
)  # fmt: skip


class LastStep(AtLastStep):
    """The last step: what a run ends with is what is reported.

    It chooses nothing, so it is no way to compare draws of hyper-parameters, and not registered.
    """

    name = "last-step"
    title = "last step of each run"
    needs = Needs(("test-in",), every_step=False)

    def score(self, last: Evaluation, test_domain: int) -> float | None:
        """Return the same for every run."""
        return 0.0


def find_plain_runs(folder: Path) -> list[Path]:
    """Return the folders of runs at or under ``folder``."""
    configs = sorted(folder.rglob("config.json"))
    return [
        path.parent for path in configs if any((path.parent / name).exists() for name in _TRACES)
    ]


def read_plain_runs(folders: Sequence[Path]) -> list[RunOutcome]:
    """Read run folders; the seed of a run counts as that of its trial."""
    names = ("dataset", "algorithm", "test_domains", "seed")
    configs = {folder: read_object(folder / "config.json", names) for folder in folders}
    _refuse_other_data(configs)
    domains = _domains(configs)
    titles = _titles(configs)
    outcomes = []
    for folder, config in configs.items():
        outcome = outcome_of_run(folder, domains[config["dataset"]], 0, config["seed"])
        values = {**vars(outcome), "algorithm": titles[folder], "alone": True}
        outcomes.append(RunOutcome(**values))
    return outcomes


def runs_to_compare(outcomes: Sequence[RunOutcome]) -> set[RunKey]:
    """Return the runs that a comparison of these needs.

    Every algorithm on each test domain and seed that one of them was made for, and nothing else.
    """
    wanted = set()
    for dataset in {outcome.dataset for outcome in outcomes}:
        own = [outcome for outcome in outcomes if outcome.dataset == dataset]
        wanted |= {
            RunKey(dataset, algorithm, tests, 0, seed)
            for algorithm in {outcome.algorithm for outcome in own}
            for tests in {outcome.key.test_domains for outcome in own if outcome.test_domains}
            for seed in {outcome.trial_seed for outcome in own}
        }
    return wanted


def _refuse_other_data(configs: Mapping[Path, Mapping[str, Any]]) -> None:
    """Require that runs on data of one name were on the same data."""
    first: dict[tuple[Any, ...], Path] = {}
    for folder, config in configs.items():
        frozen = tuple(sorted(config.get("frozen", {}).items()))
        key = (config["dataset"], config.get("data_seed"), frozen)
        other = first.setdefault(key, folder)
        if config.get("fingerprint") != configs[other].get("fingerprint"):
            raise DataError(
                f"{other} and {folder} were trained on different data under the name"
                f" {config['dataset']}; report on them apart"
            )


def _domains(configs: Mapping[Path, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the domains of each dataset, as far as its runs have measured them, in their order."""
    measured: dict[str, list[list[str]]] = {}
    for folder, config in configs.items():
        found = dict.fromkeys(
            name.rpartition("/")[0]
            for record in read_records(folder / "records.jsonl")
            for name in record.get("accuracy", {})
            if "/" in name
        )
        found.update(dict.fromkeys(config["test_domains"]))
        measured.setdefault(config["dataset"], []).append(list(found))
    return {
        # The run that measured most has them in the dataset's own order.
        dataset: tuple(dict.fromkeys(name for names in _most_first(lists) for name in names))
        for dataset, lists in measured.items()
    }


def _most_first(lists: Iterable[list[str]]) -> list[list[str]]:
    return sorted(lists, key=len, reverse=True)


def _titles(configs: Mapping[Path, Mapping[str, Any]]) -> dict[Path, str]:
    """Name each run after its algorithm and, where those differ, its settings."""
    groups: dict[tuple[str, str], list[Path]] = {}
    for folder, config in configs.items():
        groups.setdefault((config["dataset"], config["algorithm"]), []).append(folder)
    titles = {}
    for (_, algorithm), folders in groups.items():
        settings = {folder: _settings(configs[folder]) for folder in folders}
        names = {name for each in settings.values() for name in each}
        differing = sorted(
            name for name in names if len({str(each.get(name)) for each in settings.values()}) > 1
        )
        for folder, each in settings.items():
            said = ", ".join(f"{name}={each[name]}" for name in differing if name in each)
            titles[folder] = f"{algorithm} ({said})" if said else algorithm
    return titles


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    general = {name: value for name, value in config.items() if name not in _NO_SETTINGS}
    return {**general, **config.get("hparams", {})}
