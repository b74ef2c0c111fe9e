"""Compute the representations and risks of a trained run on samples it was not trained on.

Training samples are not informative: memorised samples have no risk in any domain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from shiftproof.core.errors import DataError
from shiftproof.core.types import REGRESSION
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.splits import split_domain
from shiftproof.data.within_domain import within_domains
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.model_file import MODEL
from shiftproof.inference.predictor import Predictor, network_of_run
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.exact import Exact
from shiftproof.shift.diagnosis import ModelView
from shiftproof.shift.samples import Positions, batches
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluation_sets import reading_threads, row_losses
from shiftproof.training.fitting import refit
from shiftproof.training.load_run import fitted_preparation, read_arrays, without_starting_weights
from shiftproof.training.rows import in_standard_units, ready_for


def unseen_samples(dataset: DomainDataset, domains: tuple[str, ...], run: RunConfig) -> Positions:
    """Return the positions in the given domains that a run was not trained on."""
    positions = {}
    for index, domain in enumerate(dataset.domains):
        if domain.name not in domains:
            continue
        rows = np.arange(len(domain))
        if domain.name not in run.test_domains:
            rows = np.sort(split_domain(len(domain), run.holdout, run.data_seed, index).out)
        if len(rows) == 0:
            raise DataError(
                f"the run was trained on every sample of domain {domain.name!r}, so none is left to"
                " measure; train with `holdout` above 0, or leave the domain out"
            )
        positions[domain.name] = rows
    return positions


def view_of_run(
    folder: Path,
    run: RunConfig,
    dataset: DomainDataset,
    positions: Positions,
    *,
    device: str = "auto",
    workers: int | None = None,
    progress: Progress = silent,
) -> ModelView:
    """Return the representations and risks of the samples, with the weights that the run scores.

    A representation is the input of the head.  `dataset` must be the whole dataset of the run; it
    is standardised here as it was for the run.
    """
    if dataset.standardize != run.standardize:
        dataset = within_domains(dataset, run.standardize)
    if dataset.fingerprint != run.fingerprint:
        raise DataError(
            f"the run in {folder} was trained on other data ({run.dataset}) than this"
            f" {dataset.name}; use the same data, options and frozen features"
        )
    run = without_starting_weights(run, device)
    exact = ALGORITHMS.get(run.algorithm).exact
    learner = _learner(folder, run, dataset) if exact else None
    state = {} if exact else read_arrays(folder)
    dataset = ready_for(run.algorithm, dataset, fitted_preparation(run, dataset, state))
    task = run.task(dataset)
    if task.kind == REGRESSION:
        dataset = in_standard_units(dataset, task)
    if learner is not None:
        network = Predictor(learner)  # its representations are the rows
    else:
        network = network_of_run(run, task, folder).to(run.device)
    parts = list(_views(run, network, dataset, positions, reading_threads(workers), progress))
    representations, outputs, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return ModelView(
        f"{run.algorithm} in {folder}",
        representations.astype(np.float64),
        row_losses(task, outputs, labels),
        None if task.kind == REGRESSION else outputs.argmax(axis=1) == labels,
    )


def _learner(folder: Path, run: RunConfig, dataset: DomainDataset) -> Exact:
    """Return the learner in the model file of a run; without one, of a sweep, fit it again."""
    model = folder / MODEL
    fitted = TrainedModel.load(folder, run.device).network if model.is_file() else None
    learner: Exact = (fitted or refit(run, dataset)).algorithm
    return learner


@torch.no_grad()
def _views(
    run: RunConfig,
    network: Predictor,
    dataset: DomainDataset,
    positions: Positions,
    workers: int,
    progress: Progress,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield representations, outputs and labels, batch by batch."""
    device = torch.device(run.device)
    autocast = torch.autocast(device.type, dtype=torch.bfloat16)
    total, done = sum(map(len, positions.values())), 0
    for _, x, labels in batches(dataset, positions, workers):
        with autocast if run.precision == "bf16" else contextlib.nullcontext():
            parts = network.represented(x.to(device))
        done += len(x)
        progress("running the model", done, total)
        representations, outputs = (part.float().cpu().numpy() for part in parts)
        yield representations, outputs, labels.numpy()
