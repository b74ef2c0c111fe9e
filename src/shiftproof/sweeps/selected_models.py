"""Export the models that the selection methods select, as runs that end at the selected step.

A run is bitwise reproducible from its configuration.  So a sweep need not keep the models of
earlier steps: the run is repeated up to the selected step, and must reproduce the sweep's record
there.  A model of the last step is copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from shiftproof.core.errors import RunConflict
from shiftproof.core.files import write_json
from shiftproof.inference.model_file import MODEL
from shiftproof.inference.model_of_run import trained_model
from shiftproof.sweeps.aggregate import aggregate
from shiftproof.sweeps.jobs import DatasetCache, Job
from shiftproof.sweeps.results import Run, RunKey, positions
from shiftproof.sweeps.selection import Selection, Selector
from shiftproof.sweeps.store import SweepFolder
from shiftproof.sweeps.stored_run import read_planned_run

INDEX = "models.json"


@dataclass(frozen=True)
class SelectedModel:
    """The model selected in one cell of a table, and the run that ends with it."""

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


def select_models(
    jobs: Iterable[Job], outcomes: Iterable[Run], selectors: Iterable[Selector]
) -> list[tuple[SelectedModel, Job]]:
    """Return the models that each selector selects, with the jobs that end at the selected steps.

    ``outcomes`` of other jobs, such as another plan in the same folder, are ignored.
    """
    by_key = {_key(job): job for job in jobs}
    own = [outcome for outcome in outcomes if outcome.key in by_key]
    selected = []
    for selector in selectors:
        for dataset in aggregate(own, selector).datasets:
            for (_, position), cell in dataset.cells.items():
                for found in cell.selections.values():
                    job = by_key[found.run.key]
                    job = replace(job, config=replace(job.config, steps=found.step))
                    model = _described(selector.name, dataset.domains[position], found, job)
                    selected.append((model, job))
    return selected


def export_models(
    selected: Sequence[tuple[SelectedModel, Job]],
    sweep: SweepFolder,
    out: Path,
    run: Callable[[Sequence[Job], Path], bool],
) -> Path | None:
    """Write the runs that end with the selected models to ``out``; return the path of their list.

    ``run`` runs jobs in a folder and returns whether all have finished; if not, return None.
    """
    if out.resolve().is_relative_to(sweep.path.resolve()):
        raise RunConflict(f"{out} is inside the sweep; choose another folder for its models")
    folder = SweepFolder(out)
    jobs = {job.id: job for _, job in selected}
    ended = [job for job in jobs.values() if (sweep.run(job) / "done.json").exists()]
    if not run([job for job in jobs.values() if job not in ended], out):
        return None
    for job in ended:
        _copy(sweep, folder, job)
    for model, job in selected:
        _check(model, job, folder)
    cache = DatasetCache()
    for job in sorted(jobs.values(), key=lambda job: (job.data.name, job.trial_seed)):
        save_model(job, folder.run(job), cache)
    write_json(out / INDEX, {"models": [asdict(model) for model, _ in selected]})
    return out / INDEX


def _described(selection: str, test_domain: str, found: Selection, job: Job) -> SelectedModel:
    return SelectedModel(
        selection,
        found.run.dataset,
        found.run.algorithm,
        test_domain,
        found.run.trial_seed,
        found.run.hparams_seed,
        found.step,
        found.score,
        found.accuracy,
        # Relative to the list, so that the folder can be moved.
        str(SweepFolder(Path()).run(job)),
    )


def _copy(sweep: SweepFolder, models: SweepFolder, job: Job) -> None:
    """Copy a run atomically."""
    source, target = sweep.run(job), models.run(job)
    if target.exists():
        return
    aside = models.path / "copying"
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(source, aside)
    target.parent.mkdir(exist_ok=True)
    os.replace(aside, target)


def save_model(job: Job, run: Path, cache: DatasetCache) -> None:
    """Write the model file, which `load_model` reads, into the run's folder."""
    if not (run / MODEL).exists():
        dataset = cache.get(job)
        trained_model(job.config, dataset, run).save(run)


def _check(model: SelectedModel, job: Job, folder: SweepFolder) -> None:
    """Raise if the repeated run did not measure what the sweep recorded."""
    path = folder.run(job)
    outcome = read_planned_run(path)
    position = job.domains.index(model.test_domain)
    last = outcome.evaluations[-1] if outcome.evaluations else None
    if last is None or last.step != model.step or last.inside[position] != model.accuracy:
        found = last.inside[position] if last else None
        raise RunConflict(
            f"{path} measures {found} on {model.test_domain} after step {model.step}, but the sweep"
            f" recorded {model.accuracy}: it was made by another version or on another machine; run"
            " the sweep again"
        )


def _key(job: Job) -> RunKey:
    tests = positions(job.config.test_domains, job.domains, job.data.name)
    return RunKey(job.data.name, job.variant, tests, job.hparams_seed, job.trial_seed)
