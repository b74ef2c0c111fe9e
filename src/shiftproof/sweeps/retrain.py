"""Retrain the selected settings on all samples of the training domains.

Selection needs samples that are not trained on.  After selection, they can be used: each selected
run is repeated up to the selected step with nothing held out, the full-data step of ERM++ (Teterwak
et al., 2023, *ERM++: An Improved Baseline for Domain Generalization*).  The held-out domain stays
unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.sweeps.combine.scoring import REPORTING, Scorer
from shiftproof.sweeps.combine.stored import CombinedFolder, CombinedResult
from shiftproof.sweeps.jobs import DatasetCache, Job
from shiftproof.sweeps.selected_models import SelectedModel, save_model
from shiftproof.sweeps.store import SweepFolder
from shiftproof.sweeps.stored_run import RETRAINED


def without_holdout(job: Job) -> Job:
    """Return the job changed to train on all samples of its training domains and evaluate once."""
    config = replace(job.config, holdout=0.0, evaluate=(REPORTING,), eval_every=0)
    return replace(job, config=config)


def retrain(
    selected: Sequence[tuple[SelectedModel, Job]],
    sweep: SweepFolder,
    run: Callable[[Sequence[Job], Path], bool],
    progress: Progress = silent,
) -> list[CombinedResult]:
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
    found = []
    in_order = sorted(selected, key=lambda each: (each[0].dataset, each[0].trial_seed))
    for done, (model, job) in enumerate(in_order):
        progress("scoring retrained runs", done, len(in_order))
        folder, again = folders[model.selection], without_holdout(job)
        if folder.state(again) == "finished":
            save_model(again, folder.run(again), cache)
            found.append(_scored(model, job, again, folder.run(again), sweep, cache.get(job)))
    progress("scoring retrained runs", len(in_order), len(in_order))
    return found


def _scored(
    model: SelectedModel,
    job: Job,
    again: Job,
    run: Path,
    sweep: SweepFolder,
    dataset: DomainDataset,
) -> CombinedResult:
    """Score a retrained run on the same samples of the test domain as the sweep's runs."""
    cell = {
        "method": RETRAINED,
        "selection": model.selection,
        "dataset": model.dataset,
        "variant": model.algorithm,
        "test_domain": model.test_domain,
        "trial_seed": model.trial_seed,
    }
    place = CombinedFolder(sweep.path, cell)
    if (there := place.read([again.id])) is not None:
        return there
    scorer = Scorer(job.config, dataset, run, again.config)
    predicted = scorer.probabilities(scorer.trained(again.config, run), REPORTING)
    result = CombinedResult(
        RETRAINED,
        model.dataset,
        model.algorithm,
        job.domains,
        model.test_domain,
        model.trial_seed,
        job.config.average,
        (again.id,),
        (model.hparams_seed,),
        (model.hparams_seed,),
        None,  # its validation samples were trained on
        scorer.accuracy(predicted, REPORTING),
        scorer.log_loss(predicted, REPORTING),
        model.selection,
        str(run.relative_to(sweep.path)),
    )
    place.begin()
    place.finish(result)
    return result
