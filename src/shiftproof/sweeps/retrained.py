"""The models that a sweep selected, and the rows of tables for those that were retrained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json
from shiftproof.core.json_values import rebuilt
from shiftproof.sweeps.aggregate import SelectionResults, aggregate
from shiftproof.sweeps.domainbed.names import algorithm_title
from shiftproof.sweeps.results import Evaluation, Run
from shiftproof.sweeps.selection.base import SELECTORS
from shiftproof.sweeps.standalone_runs import LastStep
from shiftproof.sweeps.stored_run import RETRAINED

SCORES = "scores.json"
REPORTING = "test-in"
# The selection whose runs are shown for comparison; a retrained row names its selection only if it
# is a different one.
BESIDE = "training-domain"


@dataclass(frozen=True)
class SelectedModel:
    """The model selected in one cell of a table, and the run that ends with it.

    ``run`` is its folder, relative to that of the list, and ``hparams_seed`` its draw.
    ``accuracy`` is that of the run on the test domain.
    """

    selection: str
    dataset: str
    algorithm: str
    test_domain: str
    trial_seed: int
    hparams_seed: int
    step: int
    score: float
    accuracy: float
    run: str

    @property
    def row(self) -> str:
        """The name of the row of the retrained run in tables."""
        selection = "" if self.selection == BESIDE else f" ({self.selection})"
        return f"{algorithm_title(self.algorithm)}, {RETRAINED}{selection}"

    def retrained_run(self, sweep: Path, domains: tuple[str, ...]) -> Run:
        """Return the retrained run in its own row, with one evaluation."""
        position = domains.index(self.test_domain)
        inside = tuple(self.accuracy if name == self.test_domain else None for name in domains)
        evaluations = (Evaluation(0, inside, (None,) * len(domains)),)
        hparams = {"hparams": {"draws": [self.hparams_seed]}}
        row = (self.dataset, self.row, domains, (position,), 0, self.trial_seed)
        return Run(*row, "finished", evaluations, sweep / self.run, hparams)


def read_retrained(runs: Iterable[Run], paths: Sequence[Path]) -> list[tuple[SelectedModel, Path]]:
    """Return the retrained runs of the sweeps of these runs, each with the folder of its sweep.

    A sweep keeps its runs in the folder ``runs``.  Sweeps that are not below ``paths`` are left
    out: a report on one run does not include the retrained runs of its sweep.
    """
    sweeps = {folder.parent for folder in {run.folder.parent for run in runs if run.folder}}
    asked = [sweep for sweep in sweeps if any(sweep.is_relative_to(path) for path in paths)]
    return [
        (result, sweep)
        for sweep in sorted(asked)
        for file in sorted((sweep / RETRAINED).glob(f"*/{SCORES}"))
        for result in read_scores(file)
    ]


def read_scores(path: Path) -> tuple[SelectedModel, ...]:
    """Return the retrained runs that a file lists."""
    remedy = "delete it and retrain again"
    value = read_json(path, ("runs",), remedy)["runs"]
    try:
        runs: tuple[SelectedModel, ...] = rebuilt(tuple[SelectedModel, ...], value)
    except ValueError as error:
        raise DataError(f"{path} was written by another version; {remedy} ({error})") from error
    return runs


class Retrained(LastStep):
    """A selector for retrained runs, which selects nothing and is not registered."""

    name = RETRAINED
    title = f"retrained on all samples (plain rows: not retrained, selected by {BESIDE})"


def retrained_results(
    retrained: Sequence[tuple[SelectedModel, Path]], runs: Sequence[Run]
) -> SelectionResults:
    """Return the rows of retrained runs, together with the runs selected in the same cells."""
    domains = {run.dataset: run.domains for run in runs}
    outcomes = [model.retrained_run(sweep, domains[model.dataset]) for model, sweep in retrained]
    cells = {(r.dataset, r.algorithm, r.test_domain, r.trial_seed) for r, _ in retrained}
    for dataset in aggregate(runs, SELECTORS.get(BESIDE)()).datasets:
        for (variant, position), cell in dataset.cells.items():
            for trial, chosen in cell.selections.items():
                if (dataset.dataset, variant, dataset.domains[position], trial) in cells:
                    step = next(e for e in chosen.run.evaluations if e.step == chosen.step)
                    outcomes.append(replace(chosen.run, hparams_seed=0, evaluations=(step,)))
    results = aggregate(outcomes, Retrained())
    datasets = []
    for data in results.datasets:
        draws = {run.hparams_seed for run in runs if run.dataset == data.dataset}
        datasets.append(replace(data, draws=tuple(sorted(draws))))
    return replace(results, datasets=tuple(datasets))
