"""The model of a finished run: its scored weights, and a description of its training domains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from shiftproof.core.errors import DataError
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.input_forms import InputForm, TableForm, form_of
from shiftproof.data.splits import Split
from shiftproof.inference.adaptation.held_out import HeldOut
from shiftproof.inference.adaptation.when import record_of
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.predictor import Predictor
from shiftproof.inference.representation import seen_by
from shiftproof.inference.typicality import MOST_SAMPLES, Typicality
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluate import EvaluationSet, read_in_order, reading_threads
from shiftproof.training.features import FrozenFeatures
from shiftproof.training.load_run import (
    fitted_preparation,
    read_checkpoint,
    weights_in_place,
    without_starting_weights,
)
from shiftproof.training.rows import ready_for
from shiftproof.training.trainer import build_algorithm


def trained_model(
    config: RunConfig,
    dataset: DomainDataset,
    folder: Path,
    progress: Progress = silent,
) -> TrainedModel:
    """Return the model of a run, from its folder and the dataset it was trained on."""
    if dataset.fingerprint != config.fingerprint:
        raise DataError(f"the run in {folder} was trained on other data than this {dataset.name}")
    state = read_checkpoint(folder)
    fitted = fitted_preparation(config, dataset, state)
    form = form_of(dataset, fitted, raw=ALGORITHMS.get(config.algorithm).exact)
    dataset = ready_for(config.algorithm, dataset, fitted)
    task = config.task(dataset)
    unweighted = without_starting_weights(config, config.device)
    trained = build_algorithm(unweighted, task)
    with weights_in_place(folder, config, trained, state):
        weights = Predictor(trained).weights()
    network = Predictor(build_algorithm(unweighted, task))
    network.load(weights)
    held_out = HeldOut.from_state(state["algorithm"]["modules"])
    splits = config.training_splits(dataset)
    typicality = None
    if not config.private:
        typicality = _typicality(network, dataset, splits, form, config.device, progress)
    if isinstance(dataset, FrozenFeatures):
        form = dataset.source
        network = Predictor(network.algorithm, dataset.network().to(config.device))
    model = TrainedModel(
        config,
        task,
        dataset.classes,
        tuple(splits),
        form,
        network,
        typicality,
        dict(dataset.columns),
        config.device,
        None if held_out is None else record_of(held_out),
    )
    return model.without_training_data() if config.private else model


def _typicality(
    network: Predictor,
    dataset: DomainDataset,
    splits: Mapping[str, Split],
    form: InputForm,
    device: str,
    progress: Progress,
) -> Typicality:
    """Describe the training domains by some of the samples of each."""
    domains = [domain for domain in dataset.domains if domain.name in splits]
    # They are in random order, so the first are a random sample.
    parts = {
        part: {d.name: getattr(splits[d.name], part)[:MOST_SAMPLES] for d in domains}
        for part in Split._fields
    }
    total = sum(len(index) for part in parts.values() for index in part.values())
    done = 0

    def seen(part: str) -> dict[str, Tensor]:
        nonlocal done
        found = {}
        for domain in domains:
            subset = EvaluationSet(domain.name, domain, parts[part][domain.name])
            batches = []
            for x, _ in read_in_order(subset, reading_threads(None)):
                batches.append(
                    form.features(x).float()
                    if isinstance(form, TableForm)
                    else seen_by(network, x.to(device), form)[0]
                )
                done += len(x)
                progress("describing the training domains", done, total)
            if batches:
                found[domain.name] = torch.cat(batches)
        return found

    trained_on = seen("in_")
    # Without held-out samples, training samples are used, which look slightly more typical.
    return Typicality.fit(trained_on, seen("out") or trained_on)
