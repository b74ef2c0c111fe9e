"""The model of a finished run: its evaluated weights, and a description of its training domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.types import CLASSIFICATION, Task
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.input_forms import InputForm, TensorForm, form_of
from shiftproof.data.splits import Split
from shiftproof.inference.adaptation.held_out import HeldOut
from shiftproof.inference.adaptation.label_shift import label_shift
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.number_intervals import HalfWidths
from shiftproof.inference.row_predictor import RowPredictor
from shiftproof.inference.temperature import held_out_temperature
from shiftproof.inference.typicality import MOST_SAMPLES, Typicality
from shiftproof.learners.base import ALGORITHMS
from shiftproof.training.array_state import State
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluation_sets import EvaluationSet
from shiftproof.training.fitting import fitted_exact
from shiftproof.training.frozen_features import FrozenFeatures
from shiftproof.training.load_run import (
    fitted_preparation,
    read_arrays,
)
from shiftproof.training.rows import ready_for

if TYPE_CHECKING:
    from shiftproof.inference.predictor import Predictor


def trained_model(
    config: RunConfig,
    dataset: DomainDataset,
    folder: Path,
    progress: Progress = silent,
) -> TrainedModel:
    """Return the model of a run, from its folder and the dataset it was trained on."""
    if dataset.fingerprint != config.fingerprint:
        raise DataError(f"the run in {folder} was trained on other data than this {dataset.name}")
    state = read_arrays(folder)
    fitted = fitted_preparation(config, dataset, state)
    exact = ALGORITHMS.get(config.algorithm).exact
    form = form_of(dataset, fitted, raw=exact)
    dataset = ready_for(config.algorithm, dataset, fitted)
    if isinstance(dataset, FrozenFeatures):
        form = TensorForm(dataset.input_shape)
    task = config.task(dataset)
    network = _network(config, task, folder, state)
    classes = task.kind == CLASSIFICATION
    modules = state["algorithm"]["modules"]
    held_out = HeldOut.from_state(modules) if classes else None
    splits = config.training_splits(dataset)
    parts = ("out",) if config.private else Split._fields
    # Learners that are fitted at once are calibrated on whole held-out domains.
    tempered = classes and not exact
    domains = _Domains(network, dataset, splits, parts, form, config.device, progress, tempered)
    typicality = None if config.private else domains.typicality()
    if tempered:
        from shiftproof.inference.network_of_run import with_temperature

        network = with_temperature(network, domains.temperature())
    if isinstance(dataset, FrozenFeatures):
        from shiftproof.inference.network_of_run import with_stem

        form = dataset.source
        network = with_stem(network, dataset, fitted, config.device)
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
        None if held_out is None else label_shift(held_out),
        targets=dataset.targets,
        half_widths=None if classes else HalfWidths.from_state(modules, task.scale[0]),
    )
    return model.without_training_data() if config.private else model


def _network(config: RunConfig, task: Task, folder: Path, state: State) -> Predictor | RowPredictor:
    """Return the trained predictor of a run, with the weights that the run evaluates."""
    if not ALGORITHMS.get(config.algorithm).exact:
        from shiftproof.inference.network_of_run import network_of_run

        return network_of_run(config, task, folder)
    return RowPredictor(fitted_exact(config, task, folder, state))


class _Seen(NamedTuple):
    """Representations, probabilities if needed, and labels of samples."""

    representation: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray


class _Domains:
    """Representations and probabilities of some samples of each training domain, read once."""

    def __init__(
        self,
        network: Predictor | RowPredictor,
        dataset: DomainDataset,
        splits: Mapping[str, Split],
        parts: Sequence[str],
        form: InputForm,
        device: str,
        progress: Progress,
        tempered: bool,
    ) -> None:
        self._tempered = tempered
        self._network, self._form, self._device = network, form, device
        self._progress, self._done = progress, 0
        self._domains = [domain for domain in dataset.domains if domain.name in splits]
        # The splits are in random order, so the first rows are a random sample.
        self._rows = {
            part: {d.name: getattr(splits[d.name], part)[:MOST_SAMPLES] for d in self._domains}
            for part in parts
        }

    def typicality(self) -> Typicality:
        """Describe the training domains."""
        trained_on = {name: own.representation for name, own in self._trained_on.items()}
        held_out = {name: own.representation for name, own in self._held_out.items()}
        # Without held-out samples, training samples are used, which look slightly more typical.
        return Typicality.fit(trained_on, held_out or trained_on)

    def temperature(self) -> float:
        """Return the temperature that minimises the log loss on the held-out samples."""
        return held_out_temperature(
            {name: (own.probabilities, own.labels) for name, own in self._held_out.items()}
        )

    @property
    def _parts(self) -> tuple[dict[str, _Seen], ...]:
        return self._trained_on, self._held_out

    @cached_property
    def _trained_on(self) -> dict[str, _Seen]:
        return self._seen("in_")

    @cached_property
    def _held_out(self) -> dict[str, _Seen]:
        return self._seen("out")

    def _seen(self, part: str) -> dict[str, _Seen]:
        total = sum(len(index) for rows in self._rows.values() for index in rows.values())
        found = {}
        for domain in self._domains:
            subset = EvaluationSet(domain.name, domain, self._rows[part][domain.name])
            answered = self._tempered and part == "out"
            batches = []
            for batch in self._network.described(
                subset, self._form, self._device, answered=answered
            ):
                batches.append(batch)
                self._done += len(batch[0])
                self._progress("describing the training domains", self._done, total)
            if batches:
                seen, chances = map(np.concatenate, zip(*batches, strict=True))
                found[domain.name] = _Seen(seen, chances, domain.label_array[subset.index])
        return found
