"""The model of a finished run: its scored weights, and a description of its training domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from shiftproof.core.errors import DataError
from shiftproof.core.types import CLASSIFICATION
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.input_forms import InputForm, TableForm, TensorForm, form_of
from shiftproof.data.splits import Split
from shiftproof.data.tables.preprocessing import FittedColumns
from shiftproof.inference.adaptation.held_out import HeldOut
from shiftproof.inference.adaptation.typical_inputs import TypicalRows
from shiftproof.inference.adaptation.when import record_of
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.number_intervals import HalfWidths
from shiftproof.inference.predictor import Predictor
from shiftproof.inference.representation import seen_by
from shiftproof.inference.stem import in_standard_units
from shiftproof.inference.temperature import held_out_temperature
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
    exact = ALGORITHMS.get(config.algorithm).exact
    form = form_of(dataset, fitted, raw=exact)
    dataset = ready_for(config.algorithm, dataset, fitted)
    if isinstance(dataset, FrozenFeatures):
        form = TensorForm(dataset.input_shape)
    task = config.task(dataset)
    unweighted = without_starting_weights(config, config.device)
    trained = build_algorithm(unweighted, task)
    with weights_in_place(folder, config, trained, state):
        weights = Predictor(trained).weights()
    network = Predictor(build_algorithm(unweighted, task))
    network.load(weights)
    classes = task.kind == CLASSIFICATION
    modules = state["algorithm"]["modules"]
    held_out = HeldOut.from_state(modules) if classes else None
    splits = config.training_splits(dataset)
    parts = ("out",) if config.private else Split._fields
    domains = _Domains(network, dataset, splits, parts, form, config.device, progress)
    typicality = None if config.private else domains.typicality()
    rows = domains.typical_rows(typicality) if held_out is not None else {}
    record = None if held_out is None else record_of(held_out, rows=rows)
    # Learners that are fitted at once are calibrated on whole domains that were held out.
    temperature = domains.temperature() if classes and not network.algorithm.exact else 1.0
    stem = None
    if isinstance(dataset, FrozenFeatures):
        form, stem = dataset.source, dataset.network()
        if isinstance(fitted, FittedColumns) and not exact:
            stem = in_standard_units(stem, fitted)
        stem = stem.to(config.device)
    network = Predictor(network.algorithm, stem, temperature)
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
        record,
        targets=dataset.targets,
        half_widths=() if classes else HalfWidths.from_state(modules, task.scale),
    )
    return model.without_training_data() if config.private else model


class _Seen(NamedTuple):
    """What a network says of samples: representations, logits and labels, on the CPU."""

    representation: Tensor
    logits: Tensor
    labels: Tensor


class _Domains:
    """Some samples of each training domain, read once, as the network sees them."""

    def __init__(
        self,
        network: Predictor,
        dataset: DomainDataset,
        splits: Mapping[str, Split],
        parts: Sequence[str],
        form: InputForm,
        device: str,
        progress: Progress,
    ) -> None:
        self._network, self._form, self._device = network, form, device
        self._progress, self._done = progress, 0
        self._domains = [domain for domain in dataset.domains if domain.name in splits]
        # They are in random order, so the first are a random sample.
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

    def typical_rows(self, typicality: Typicality | None) -> dict[int, TypicalRows]:
        """Return how typical the samples of each domain are for the other domains, by its place.

        None of them where small domains share a mean, which cannot be left out for one of them.
        """
        if typicality is None or len(typicality.means) != len(self._domains):
            return {}
        if len(self._domains) < 2:
            return {}
        found = {}
        for place, domain in enumerate(self._domains):
            own = [part[domain.name] for part in self._parts if domain.name in part]
            seen = torch.cat([seen.representation for seen in own])
            labels = torch.cat([seen.labels for seen in own])
            p = typicality.p_value(seen, without=place)
            found[place] = TypicalRows(p.numpy(), labels.numpy())
        return found

    def temperature(self) -> float:
        """Return the temperature with the least log loss on the held-out samples."""
        return held_out_temperature(
            {name: (own.logits, own.labels) for name, own in self._held_out.items()}
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
            batches = []
            for x, labels in read_in_order(subset, reading_threads(None)):
                batches.append(_Seen(*self._answers(x, part), labels.cpu()))
                self._done += len(x)
                self._progress("describing the training domains", self._done, total)
            if batches:
                found[domain.name] = _Seen(*map(torch.cat, zip(*batches, strict=True)))
        return found

    def _answers(self, x: Tensor, part: str) -> tuple[Tensor, Tensor]:
        """Return representations and logits; no logits where nothing asks for them."""
        if isinstance(self._form, TableForm) and (part == "in_" or self._network.algorithm.exact):
            return self._form.features(x).float().cpu(), torch.empty(len(x), 0)
        return seen_by(self._network, x.to(self._device), self._form)
