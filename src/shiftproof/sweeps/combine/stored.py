"""Store combined results, each in its own folder below ``combined`` in the sweep's folder.

``combined.json`` is written last, so a folder without it is incomplete.  The folder of a soup also
holds its model.  The folder's name contains a hash of the cell and the method; the file lists the
combined runs, so that a sweep with more draws is combined again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.files import read_json, write_json
from shiftproof.sweeps.aggregate import SelectionResults, aggregate
from shiftproof.sweeps.combine.methods import ENSEMBLE, MOVING_AVERAGES
from shiftproof.sweeps.domainbed.names import algorithm_title
from shiftproof.sweeps.results import Evaluation, Origin, RunOutcome
from shiftproof.sweeps.selection.base import SELECTORS, Needs, StepSelector

COMBINED = "combined"
FILE = "combined.json"
# The selection whose runs are shown for comparison; a retrained row names its selection only if it
# is a different one.
BESIDE = "training-domain"


@dataclass(frozen=True)
class CombinedResult:
    """The result of combining the draws of one cell.

    ``members`` are the ids of the runs, and ``draws`` their draws; ``chosen`` are the draws in the
    combination, in the order in which they were added.  ``average`` is the members' own averaging
    of weights over steps.  ``validation_accuracy`` is the mean over the training domains' out parts
    (None if there are none); ``accuracy`` and ``log_loss`` are measured on the test domain's in
    part.  For a retrained run, ``selection`` chose its settings, and ``run`` is its folder.
    """

    method: str
    dataset: str
    variant: str
    domains: tuple[str, ...]
    test_domain: str
    trial_seed: int
    average: str
    members: tuple[str, ...]
    draws: tuple[int, ...]
    chosen: tuple[int, ...]
    validation_accuracy: float | None
    accuracy: float
    log_loss: float
    selection: str = ""
    run: str = ""

    @property
    def row(self) -> str:
        """The name of the result's row in tables."""
        said = self.method.replace("-", " ")
        if self.method == ENSEMBLE and self.average in MOVING_AVERAGES:
            said = f"{said} of averages"
        if self.selection not in ("", BESIDE):
            said = f"{said} ({self.selection})"
        return f"{algorithm_title(self.variant)}, {said}"

    def outcome(self, folder: Path | None = None) -> RunOutcome:
        """Return the result as a run in its own row, with one evaluation."""
        position = self.domains.index(self.test_domain)
        inside: list[float | None] = [None] * len(self.domains)
        inside[position] = self.accuracy
        return RunOutcome(
            self.dataset,
            self.row,
            self.domains,
            (position,),
            0,
            self.trial_seed,
            "finished",
            (Evaluation(0, tuple(inside), (None,) * len(self.domains)),),
            folder,
            Origin({"hparams": {"draws": list(self.chosen)}}),
        )


class CombinedFolder:
    """The folder of one combined result in a sweep."""

    def __init__(self, sweep: Path, cell: Mapping[str, Any]) -> None:
        text = json.dumps(cell, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.path = sweep / COMBINED / f"{cell['dataset']}-{cell['method']}-{name}"

    def read(self, members: Sequence[str]) -> CombinedResult | None:
        """Return the result if it exists and combines exactly these runs."""
        if not (self.path / FILE).exists():
            return None
        found = read_result(self.path / FILE)
        return found if found.members == tuple(members) else None

    def begin(self) -> Path:
        """Delete an older result, which would not match a new model; return the folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / FILE).unlink(missing_ok=True)
        return self.path

    def finish(self, result: CombinedResult) -> None:
        """Write the result atomically."""
        write_json(self.path / FILE, asdict(result))


def read_result(path: Path) -> CombinedResult:
    """Read a ``combined.json``."""
    remedy = "delete it and combine again"
    value = read_json(path, ("method", "dataset", "variant", "accuracy"), remedy)
    fields: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in value.items()
    }
    try:
        return CombinedResult(**fields)
    except TypeError as error:
        raise DataError(f"{path} was written by another version; {remedy} ({error})") from error


def read_combined(
    runs: Iterable[RunOutcome], paths: Sequence[Path]
) -> list[tuple[CombinedResult, Path]]:
    """Return the combined results of the sweeps of these runs, each with its own folder.

    A sweep keeps its runs in the folder ``runs``.  Sweeps that are not below ``paths`` are left
    out: a report on one run does not include the combined results of its sweep.
    """
    sweeps = {folder.parent for folder in {run.folder.parent for run in runs if run.folder}}
    asked = [sweep for sweep in sweeps if any(sweep.is_relative_to(path) for path in paths)]
    files = sorted(file for sweep in asked for file in (sweep / COMBINED).glob(f"*/{FILE}"))
    return [(read_result(file), file.parent) for file in files]


class Combined(StepSelector):
    """A selector for combined draws, which selects nothing and is not registered."""

    name = "combined"
    title = f"combined draws (plain rows: one draw, selected by {BESIDE})"
    needs = Needs(("test-in",), every_step=False)

    def score(self, evaluation: Evaluation, test_domain: int) -> float | None:
        """Return the same score for every result."""
        return 0.0


def combined_results(
    found: Sequence[tuple[CombinedResult, Path]], runs: Sequence[RunOutcome]
) -> SelectionResults:
    """Return the rows of combined draws, together with the runs selected in the same cells."""
    outcomes = [result.outcome(folder) for result, folder in found]
    cells = {(r.dataset, r.variant, r.test_domain, r.trial_seed) for r, _ in found}
    for dataset in aggregate(runs, SELECTORS.get(BESIDE)()).datasets:
        for (variant, position), cell in dataset.cells.items():
            for trial, chosen in cell.selections.items():
                if (dataset.dataset, variant, dataset.domains[position], trial) in cells:
                    step = next(e for e in chosen.run.evaluations if e.step == chosen.step)
                    outcomes.append(replace(chosen.run, hparams_seed=0, evaluations=(step,)))
    results = aggregate(outcomes, Combined())
    datasets = tuple(
        replace(each, draws=_draws(each.dataset, found, runs)) for each in results.datasets
    )
    return replace(results, datasets=datasets)


def _draws(
    dataset: str, found: Sequence[tuple[CombinedResult, Path]], runs: Sequence[RunOutcome]
) -> tuple[int, ...]:
    """Return the combined draws, or all draws of the sweep if runs were only retrained."""
    several = [r.draws for r, _ in found if r.dataset == dataset and not r.selection]
    combined = {draw for draws in several for draw in draws}
    every = {run.hparams_seed for run in runs if run.dataset == dataset}
    return tuple(sorted(combined or every))
