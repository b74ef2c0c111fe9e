"""Retrain the selected settings on all samples of the training domains.

Selection needs samples that are not trained on.  After selection, they can be used: each selected
run is repeated up to the selected step with nothing held out, the full-data step of ERM++ (Teterwak
et al., 2023, *ERM++: An Improved Baseline for Domain Generalization*).  The held-out domain stays
unseen.

The runs are in ``retrained/SELECTION`` of the sweep, with a `SCORES` file that lists their results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from shiftproof.core.errors import InvalidValue
from shiftproof.core.files import write_json
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.inference.model_of_run import trained_model
from shiftproof.learners.exact import Exact
from shiftproof.sweeps.jobs import DatasetCache, Job
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.retrained import REPORTING, SCORES, RetrainedRun, read_scores
from shiftproof.sweeps.selected_models import SelectedModel
from shiftproof.sweeps.store import SweepFolder
from shiftproof.sweeps.stored_run import RETRAINED
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.evaluate import evaluate
from shiftproof.training.evaluation_sets import EvaluationSet, evaluate_rows, reading_threads
from shiftproof.training.load_run import fitted_preparation, read_arrays
from shiftproof.training.records import MEASURES
from shiftproof.training.rows import in_standard_units, ready_for


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
) -> list[RetrainedRun]:
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
    results: list[RetrainedRun] = []
    in_order = sorted(selected, key=lambda pair: (pair[0].dataset, pair[0].trial_seed))
    for done, (model, job) in enumerate(in_order):
        progress("scoring retrained runs", done, len(in_order))
        folder, again = folders[model.selection], without_holdout(job)
        path = str(folder.run(again).relative_to(sweep.path))
        if path in known:
            results.append(known[path])
        elif folder.state(again) == "finished":
            results.append(
                RetrainedRun(
                    model.selection,
                    model.dataset,
                    model.algorithm,
                    job.domains,
                    model.test_domain,
                    model.trial_seed,
                    model.hparams_seed,
                    _saved_and_scored(job, again, folder.run(again), cache.get(job)),
                    path,
                )
            )
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
    if isinstance(learner, Exact):
        score = evaluate_rows(learner, EvaluationSet(job.domains[at], dataset.domains[at], rows))
    else:
        domain = dataset.domains[at].to(torch.device(config.device))
        subset = EvaluationSet(domain.name, domain, rows)
        score = evaluate(learner, subset, reading_threads(None))
    return score.measured[MEASURES[model.task.kind][0]]
