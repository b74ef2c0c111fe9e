"""Export the models that the selection methods select, or retrain them on all samples.

A run is bitwise reproducible from its configuration.  So a sweep need not keep the models of
earlier steps: the run is repeated up to the selected step, and must reproduce the sweep's record
there.  A model of the last step is copied.

Selection needs samples that are not trained on.  After selection, they can be used: each selected
run is repeated up to the selected step with nothing held out, the full-data step of ERM++ (Teterwak
et al., 2023, *ERM++: An Improved Baseline for Domain Generalization*).  The held-out domain stays
unseen.  These runs are in ``retrained/SELECTION`` of the sweep, with a `SCORES` file that lists
their results.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from shiftproof.core.errors import InvalidValue, RunConflict
from shiftproof.core.files import write_json
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.inference.model_file import MODEL
from shiftproof.inference.model_of_run import trained_model
from shiftproof.learners.exact import Exact
from shiftproof.sweeps.aggregate import aggregate
from shiftproof.sweeps.jobs import DatasetCache, Job
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.retrained import REPORTING, SCORES, SelectedModel, read_scores
from shiftproof.sweeps.selection import Selector
from shiftproof.sweeps.store import SweepFolder
from shiftproof.sweeps.stored_run import RETRAINED, read_planned_run
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.evaluate import evaluate
from shiftproof.training.evaluation_sets import EvaluationSet, evaluate_rows, reading_threads
from shiftproof.training.load_run import fitted_preparation, read_arrays
from shiftproof.training.records import MEASURES
from shiftproof.training.rows import in_standard_units, ready_for

INDEX = "models.json"


def select_models(
    jobs: Iterable[Job], outcomes: Iterable[Run], selectors: Iterable[Selector]
) -> list[tuple[SelectedModel, Job]]:
    """Return the models that each selector selects, with the jobs that end at the selected steps.

    ``outcomes`` of other jobs, such as another plan in the same folder, are ignored.
    """
    by_key = {job.key: job for job in jobs}
    runs = [outcome for outcome in outcomes if outcome.key in by_key]
    selected = []
    for selector in selectors:
        for dataset in aggregate(runs, selector).datasets:
            for (_, position), cell in dataset.cells.items():
                for run, step, score, accuracy in cell.selections.values():
                    job = by_key[run.key]
                    job = replace(job, config=replace(job.config, steps=step))
                    model = SelectedModel(
                        selector.name,
                        run.dataset,
                        run.algorithm,
                        dataset.domains[position],
                        run.trial_seed,
                        run.hparams_seed,
                        step,
                        score,
                        accuracy,
                        # Relative to the list, so that the folder can be moved.
                        str(SweepFolder(Path()).run(job)),
                    )
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
        accuracy = last.inside[position] if last else None
        raise RunConflict(
            f"{path} measures {accuracy} on {model.test_domain} after step {model.step}, but the"
            f" sweep recorded {model.accuracy}: it was made by another version or on another"
            " machine; run the sweep again"
        )


# --- retraining on all samples -----------------------------------------------------------------


def check_retraining(preset: Preset, average: str) -> None:
    """Raise, before anything runs, if retraining would add no samples or needs held-out ones."""
    if preset.holdout == 0:
        raise InvalidValue(
            f"the preset {preset.name} trains on all samples already; leave out `retrain=True`"
        )
    if average in AVERAGES and AVERAGES[average].judges:
        free = [name for name, kind in AVERAGES.items() if not kind.judges]
        raise InvalidValue(
            f"`average={average!r}` needs held-out samples, but `retrain=True` holds none out; use"
            f" {' or '.join(free)}"
        )


def without_holdout(job: Job) -> Job:
    """Return the job changed to train on all samples of its training domains and evaluate once."""
    config = replace(job.config, holdout=0.0, evaluate=(REPORTING,), eval_every=0)
    return replace(job, config=config)


def retrain(
    selected: Sequence[tuple[SelectedModel, Job]],
    sweep: SweepFolder,
    run: Callable[[Sequence[Job], Path], bool],
    progress: Progress = silent,
) -> list[SelectedModel]:
    """Retrain the selected runs in ``retrained/SELECTION`` of the sweep; return their scores.

    ``run`` runs jobs in a folder and returns whether all have finished; if not, nothing is scored.
    Every finished run gets a model file.  Diverged runs have no score.
    """
    folders = {
        name: SweepFolder(sweep.path / RETRAINED / name)
        for name in dict.fromkeys(model.selection for model, _ in selected)
    }
    for name, folder in folders.items():
        jobs = [without_holdout(job) for model, job in selected if model.selection == name]
        if not run(jobs, folder.path):
            return []
    cache = DatasetCache()
    files = [folder.path / SCORES for folder in folders.values()]
    known = {old.run: old for file in files if file.exists() for old in read_scores(file)}
    results: list[SelectedModel] = []
    in_order = sorted(selected, key=lambda pair: (pair[0].dataset, pair[0].trial_seed))
    for done, (model, job) in enumerate(in_order):
        progress("scoring retrained runs", done, len(in_order))
        folder, again = folders[model.selection], without_holdout(job)
        path = str(folder.run(again).relative_to(sweep.path))
        if path in known:
            results.append(known[path])
        elif folder.state(again) == "finished":
            accuracy = _saved_and_scored(job, again, folder.run(again), cache.get(job))
            results.append(replace(model, accuracy=accuracy, run=path))
    progress("scoring retrained runs", len(in_order), len(in_order))
    for name, folder in folders.items():
        listed = [asdict(result) for result in results if result.selection == name]
        write_json(folder.path / SCORES, {"runs": listed})
    return results


def _saved_and_scored(job: Job, again: Job, run: Path, dataset: DomainDataset) -> float:
    """Write the model of a retrained run; return its accuracy, or R² of numbers.

    It is measured on the samples of the test domain on which the sweep's runs are measured.
    """
    config = again.config
    model = trained_model(config, dataset, run)
    model.save(run)
    learner = model.network.algorithm
    state = None if isinstance(learner, Exact) else read_arrays(run)
    dataset = ready_for(config.algorithm, dataset, fitted_preparation(config, dataset, state))
    dataset = in_standard_units(dataset, model.task)
    (at,) = (job.domains.index(name) for name in config.test_domains)
    rows = job.config.splits(dataset)[at].in_
    domain = dataset.domains[at]
    if isinstance(learner, Exact):
        score = evaluate_rows(learner, EvaluationSet(domain.name, domain, rows))
    else:
        domain = domain.to(torch.device(config.device))
        score = evaluate(learner, EvaluationSet(domain.name, domain, rows), reading_threads(None))
    return score.measured[MEASURES[model.task.kind][0]]
