"""Results of retrained runs (see `retrain`), and their rows in tables."""

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
from shiftproof.sweeps.selection.base import SELECTORS, Needs, StepSelector
from shiftproof.sweeps.stored_run import RETRAINED

SCORES = "scores.json"
REPORTING = "test-in"
# The selection whose runs are shown for comparison; a retrained row names its selection only if it
# is a different one.
BESIDE = "training-domain"


@dataclass(frozen=True)
class RetrainedRun:
    """A retrained run, whose settings ``selection`` chose, and its score on the test domain.

    ``run`` is its folder, relative to that of the sweep, and ``hparams_seed`` its draw.
    """

    selection: str
    dataset: str
    variant: str
    domains: tuple[str, ...]
    test_domain: str
    trial_seed: int
    hparams_seed: int
    accuracy: float
    run: str

    @property
    def row(self) -> str:
        """The name of the run's row in tables."""
        chosen = "" if self.selection == BESIDE else f" ({self.selection})"
        return f"{algorithm_title(self.variant)}, {RETRAINED}{chosen}"

    def outcome(self, sweep: Path) -> Run:
        """Return the result as a run in its own row, with one evaluation."""
        position = self.domains.index(self.test_domain)
        inside: list[float | None] = [None] * len(self.domains)
        inside[position] = self.accuracy
        return Run(
            self.dataset,
            self.row,
            self.domains,
            (position,),
            0,
            self.trial_seed,
            "finished",
            (Evaluation(0, tuple(inside), (None,) * len(self.domains)),),
            sweep / self.run,
            {"hparams": {"draws": [self.hparams_seed]}},
        )


def read_retrained(runs: Iterable[Run], paths: Sequence[Path]) -> list[tuple[RetrainedRun, Path]]:
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


def read_scores(path: Path) -> tuple[RetrainedRun, ...]:
    """Return the retrained runs that a file lists."""
    remedy = "delete it and retrain again"
    value = read_json(path, ("runs",), remedy)["runs"]
    try:
        runs: tuple[RetrainedRun, ...] = rebuilt(tuple[RetrainedRun, ...], value)
    except ValueError as error:
        raise DataError(f"{path} was written by another version; {remedy} ({error})") from error
    return runs


class Retrained(StepSelector):
    """A selector for retrained runs, which selects nothing and is not registered."""

    name = RETRAINED
    title = f"retrained on all samples (plain rows: not retrained, selected by {BESIDE})"
    needs = Needs((REPORTING,), every_step=False)

    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return the same score for every result."""
        return 0.0


def retrained_results(
    retrained: Sequence[tuple[RetrainedRun, Path]], runs: Sequence[Run]
) -> SelectionResults:
    """Return the rows of retrained runs, together with the runs selected in the same cells."""
    outcomes = [result.outcome(sweep) for result, sweep in retrained]
    cells = {(r.dataset, r.variant, r.test_domain, r.trial_seed) for r, _ in retrained}
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
