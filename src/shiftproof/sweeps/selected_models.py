"""The models that the selection methods choose, as runs that end at the chosen step.

A run is a function of its configuration, bit for bit.  So the model of an earlier step need not be
kept by a sweep: the run is taken again as far as that step, and what it measures there must be what
the sweep recorded.  A model chosen at the last step is copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from shiftproof.core.errors import RunConflict
from shiftproof.core.files import write_json
from shiftproof.inference.model import MODEL, trained_model
from shiftproof.sweeps.aggregate import aggregate
from shiftproof.sweeps.executors.work import Shelf
from shiftproof.sweeps.jobs import Job
from shiftproof.sweeps.results import RunKey, RunOutcome, outcome_of_run, positions
from shiftproof.sweeps.selection import Selection, Selector
from shiftproof.sweeps.store import SweepFolder

INDEX = "models.json"


@dataclass(frozen=True)
class ChosenModel:
    """What a selection method chose in one cell of a table, and the run that ends with it."""

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


def choose(
    jobs: Iterable[Job], outcomes: Iterable[RunOutcome], selectors: Iterable[Selector]
) -> list[tuple[ChosenModel, Job]]:
    """Return what every selector chooses, each with the job that ends at the chosen step.

    ``outcomes`` are those of the jobs; others, of another plan in the same folder, play no part.
    """
    by_key = {_key(job): job for job in jobs}
    own = [outcome for outcome in outcomes if outcome.key in by_key]
    chosen = []
    for selector in selectors:
        for dataset in aggregate(own, selector).datasets:
            for (_, position), cell in dataset.cells.items():
                for found in cell.selections.values():
                    job = by_key[found.run.key]
                    job = replace(job, config=replace(job.config, steps=found.step))
                    model = _described(selector.name, dataset.domains[position], found, job)
                    chosen.append((model, job))
    return chosen


def export(
    chosen: Sequence[tuple[ChosenModel, Job]],
    sweep: SweepFolder,
    out: Path,
    run: Callable[[Sequence[Job], Path], None],
) -> Path:
    """Put the runs that end with the chosen models into ``out``; return the file that lists them.

    ``run`` gets jobs done in a folder.
    """
    if out.resolve().is_relative_to(sweep.path.resolve()):
        raise RunConflict(f"{out} lies in the sweep itself; choose another folder for its models")
    folder = SweepFolder(out)
    jobs = {job.id: job for _, job in chosen}
    ended = [job for job in jobs.values() if (sweep.run(job) / "done.json").exists()]
    run([job for job in jobs.values() if job not in ended], out)
    for job in ended:
        _copy(sweep, folder, job)
    for model, job in chosen:
        _check(model, job, folder)
    shelf = Shelf()
    for job in sorted(jobs.values(), key=lambda job: (job.data.name, job.trial_seed)):
        _save_model(job, folder.run(job), shelf)
    models = [asdict(model) for model, _ in chosen]
    write_json(out / INDEX, {"models": models})
    return out / INDEX


def _described(selection: str, test_domain: str, found: Selection, job: Job) -> ChosenModel:
    return ChosenModel(
        selection,
        found.run.dataset,
        found.run.algorithm,
        test_domain,
        found.run.trial_seed,
        found.run.hparams_seed,
        found.step,
        found.score,
        found.accuracy,
        # Beside the list, so that the folder can be moved.
        str(SweepFolder(Path()).run(job)),
    )


def _copy(sweep: SweepFolder, models: SweepFolder, job: Job) -> None:
    """Copy a run, whole or not at all."""
    source, target = sweep.run(job), models.run(job)
    if target.exists():
        return
    aside = models.path / "copying"
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(source, aside)
    target.parent.mkdir(exist_ok=True)
    os.replace(aside, target)


def _save_model(job: Job, run: Path, shelf: Shelf) -> None:
    """Put the model's own file into the run, for `shiftproof predict` and `export`."""
    if not (run / MODEL).exists():
        dataset = shelf.take(job)
        trained_model(job.config, dataset, run).save(run)


def _check(model: ChosenModel, job: Job, folder: SweepFolder) -> None:
    """Require that the run which was taken again measured what the sweep had recorded."""
    path = folder.run(job)
    outcome = outcome_of_run(path, job.domains, job.hparams_seed, job.trial_seed)
    position = job.domains.index(model.test_domain)
    last = outcome.evaluations[-1] if outcome.evaluations else None
    if last is None or last.step != model.step or last.inside[position] != model.accuracy:
        found = last.inside[position] if last else None
        raise RunConflict(
            f"{path} should measure {model.accuracy} on {model.test_domain} after step"
            f" {model.step}, as the sweep did, and measures {found}: made by another version, or on"
            " another machine; sweep again"
        )


def _key(job: Job) -> RunKey:
    tests = positions(job.config.test_domains, job.domains, Path(job.data.name))
    return RunKey(job.data.name, job.variant, tests, job.hparams_seed, job.trial_seed)
