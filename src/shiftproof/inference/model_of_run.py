"""The model of a finished run: its evaluated weights, and a description of its training domains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.types import CLASSIFICATION
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.input_forms import InputForm, TensorForm, form_of
from shiftproof.data.splits import Split
from shiftproof.inference.adaptation.label_shift import HeldOut, label_shift
from shiftproof.inference.conformal import HalfWidths
from shiftproof.inference.model import RowPredictor, TrainedModel
from shiftproof.inference.temperature import held_out_temperature
from shiftproof.inference.typicality import MOST_SAMPLES, Typicality
from shiftproof.learners.base import ALGORITHMS
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluation_sets import EvaluationSet
from shiftproof.training.fitting import refit
from shiftproof.training.frozen_features import FrozenFeatures
from shiftproof.training.load_run import fitted_preparation, read_arrays
from shiftproof.training.rows import ready_for
from shiftproof.training.session import Session

if TYPE_CHECKING:
    from shiftproof.inference.predictor import Predictor


def trained_model(
    config: RunConfig,
    dataset: DomainDataset,
    folder: Path,
    progress: Progress = silent,
    fit: Session | None = None,
) -> TrainedModel:
    """Return the model of a run, from its folder and the dataset it was trained on.

    A run that was fitted at once stores no weights.  Its model comes from `fit`; without it, the
    run is fitted again, with the same result.
    """
    if dataset.fingerprint != config.fingerprint:
        raise DataError(f"the run in {folder} was trained on other data than this {dataset.name}")
    exact = ALGORITHMS.get(config.algorithm).exact
    held_out: HeldOut | None = None
    network: Predictor | RowPredictor
    if exact:
        session = fit or refit(config, dataset, progress)
        learner, fitted = session.algorithm, session.preparation
        held_out = HeldOut(**learner.held_out) if learner.held_out else None
    else:
        fitted = fitted_preparation(config, dataset, read_arrays(folder))
    form = form_of(dataset, fitted, raw=exact)
    dataset = ready_for(config.algorithm, dataset, fitted)
    if isinstance(dataset, FrozenFeatures):
        form = TensorForm(dataset.input_shape)
    task = config.task(dataset)
    if exact:
        network = RowPredictor(learner)
    else:
        from shiftproof.inference.predictor import network_of_run

        network = network_of_run(config, task, folder)
    classes = task.kind == CLASSIFICATION
    splits = config.training_splits(dataset)
    # Learners that are fitted at once are calibrated on whole held-out domains.
    tempered = classes and not exact
    # The splits are in random order, so the first rows are a random sample.
    inside, outside = (
        [
            EvaluationSet(domain.name, domain, rows[:MOST_SAMPLES])
            for domain in dataset.domains
            if domain.name in splits and len(rows := getattr(splits[domain.name], part))
        ]
        for part in Split._fields
    )
    about = (form, config.device, progress)
    out = {}
    # A private model stores nothing of its training domains but the temperature.
    if tempered or not config.private:
        out = _seen(network, outside, *about, tempered)
    typicality = None
    if not config.private:
        trained_on = {name: part[0] for name, part in _seen(network, inside, *about, False).items()}
        held_out_rows = {name: part[0] for name, part in out.items()}
        # Without held-out samples, training samples are used, which look slightly more typical.
        typicality = Typicality.fit(trained_on, held_out_rows or trained_on)
    if tempered:
        labels = {part.name: part.domain.label_array[part.index] for part in outside}
        network.temperature = held_out_temperature(
            {name: (probabilities, labels[name]) for name, (_, probabilities) in out.items()}
        )
    if isinstance(dataset, FrozenFeatures):
        from shiftproof.inference.predictor import with_stem

        form = dataset.source
        network = with_stem(network, dataset, fitted, config.device)
    shift, half_widths, accuracies = None, None, {}
    if held_out is not None and classes:
        shift = label_shift(held_out)
        right = held_out.predicted.argmax(axis=1) == held_out.y
        # On the rows of each training domain, by models trained without them.
        names = tuple(splits)
        accuracies = {
            names[code]: float(right[held_out.domain == code].mean())
            for code in np.unique(held_out.domain)
        }
    elif held_out is not None:
        half_widths = HalfWidths.of_held_out(held_out, task.scale[0])
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
        shift,
        targets=dataset.targets,
        half_widths=half_widths,
        held_out_accuracy=accuracies,
    )
    return model.without_training_data() if config.private else model


def _seen(
    network: Predictor | RowPredictor,
    subsets: Sequence[EvaluationSet],
    form: InputForm,
    device: str,
    progress: Progress,
    answered: bool,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the representations of the samples of each domain, and probabilities if `answered`."""
    total, done = sum(len(subset.index) for subset in subsets), 0
    seen = {}
    for subset in subsets:
        batches = []
        for batch in network.answers(subset, form, device, answered=answered):
            batches.append(batch)
            done += len(batch[0])
            progress("describing the training domains", done, total)
        representations, probabilities = map(np.concatenate, zip(*batches, strict=True))
        seen[subset.name] = representations, probabilities
    return seen
