"""Networks for prediction: an algorithm, and the frozen network (stem) before it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.standardize import NONE
from shiftproof.core.types import CLASSIFICATION, Task
from shiftproof.data.domain import as_array, as_float_rows, as_numbers
from shiftproof.data.input_forms import InputForm, Inputs, ReadyInputs, TableForm, as_ready
from shiftproof.data.tables.preprocessing import FARTHEST, FittedColumns, Scaled
from shiftproof.data.within_domain import standardized_by_site
from shiftproof.inference.model import RowPredictor, without_labels
from shiftproof.learners.array_model import under
from shiftproof.learners.exact import Exact
from shiftproof.models.risk import class_probabilities
from shiftproof.models.side_by_side import StandardUnits
from shiftproof.training.checkpoint import read_checkpoint, weights_in_place
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluate import read_in_order
from shiftproof.training.evaluation_sets import EvaluationSet, reading_threads
from shiftproof.training.features import untrained_stem
from shiftproof.training.frozen_features import FrozenFeatures
from shiftproof.training.load_run import without_starting_weights
from shiftproof.training.trainer import build_algorithm


class Predictor(nn.Module):
    """Map from inputs [n, …] to logits [n, c], in eval mode.

    `stem` is the frozen network that computed the features for training, if there is one; the
    `algorithm` may have been fitted at once to these features.  The logits of a network are divided
    by the `temperature`.
    """

    def __init__(
        self, algorithm: Any, stem: nn.Module | None = None, temperature: float = 1.0
    ) -> None:
        super().__init__()
        self.algorithm = algorithm
        self.stem = stem
        self.temperature = temperature
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of inputs, uint8 or floating point."""
        return self._logits(self._features(x))

    def _features(self, x: Tensor) -> Tensor:
        x = as_numbers(x)
        return x if self.stem is None else self.stem(x)

    def _logits(self, features: Tensor) -> Tensor:
        if isinstance(self.algorithm, Exact):
            outputs = self.algorithm.predict(as_array(features.float()))
            return torch.from_numpy(outputs).to(features.device)
        logits: Tensor = self.algorithm.predict(features)
        return logits if self.temperature == 1 else logits / self.temperature

    def represented(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input of the head or of a learner fitted at once, [n, k], and the logits."""
        features = self._features(x)
        if isinstance(self.algorithm, Exact):
            return features.float().flatten(1), self._logits(features)
        given: list[Tensor] = []

        def listen(head: nn.Module, inputs: tuple[Any, ...]) -> None:
            given[:] = [inputs[0]]

        with self.algorithm.head.register_forward_pre_hook(listen):
            logits = self._logits(features)
        return given[0].flatten(1), logits

    @torch.no_grad()
    def seen(self, x: Tensor, form: InputForm) -> tuple[Tensor, Tensor]:
        """Return the representation for typicality, [n, k], and the logits, both on the CPU.

        The representation is the input of the head; for a table it is the features themselves,
        because a network may have learnt to ignore some.
        """
        representation, logits = self.represented(x)
        if isinstance(form, TableForm):
            representation = torch.from_numpy(form.features(as_array(x)))
        return representation.float().cpu(), logits.float().cpu()

    def weights(self) -> dict[str, np.ndarray]:
        """Return everything that predictions depend on, by name, as copies."""
        return {
            f"{part}.{name}": tensor.detach().cpu().numpy().copy()
            for part, module in self._parts().items()
            for name, tensor in module.state_dict().items()
        }

    def load(self, weights: Mapping[str, np.ndarray]) -> None:
        """Load the weights that `weights` returned."""
        for part, module in self._parts().items():
            tensors = {n: torch.tensor(array) for n, array in under(f"{part}.", weights).items()}
            module.load_state_dict(tensors)

    def answers(
        self,
        subset: EvaluationSet,
        form: InputForm,
        device: str,
        workers: int | None = None,
        *,
        answered: bool = True,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield representations, and probabilities or numbers in label units, batch by batch.

        The probabilities or numbers are left out unless `answered`.
        """
        task = self.algorithm.task
        for x, _ in read_in_order(subset, reading_threads(workers)):
            if isinstance(form, TableForm) and not answered:
                yield as_float_rows(form.features(as_array(x))), np.empty((len(x), 0))
                continue
            seen, logits = self.seen(x.to(device), form)
            if task.kind == CLASSIFICATION:
                yield seen.numpy(), class_probabilities(logits).numpy()
            else:
                yield seen.numpy(), task.in_units(logits.double()).numpy()

    def _parts(self) -> dict[str, nn.Module]:
        names = () if isinstance(self.algorithm, Exact) else self.algorithm.predicts_with
        parts = {name: getattr(self.algorithm, name) for name in names}
        return parts if self.stem is None else {**parts, "stem": self.stem}


def network_predictor(
    config: RunConfig,
    task: Task,
    input_shape: tuple[int, ...],
    temperature: float,
    learner: Exact | None,
) -> Predictor:
    """Return the predictor of a run on its device, without the weights of its networks.

    `learner` was fitted at once to the features of a frozen network.
    """
    stem = untrained_stem(config.extractor, input_shape) if config.extractor else None
    if learner is not None:
        return Predictor(learner, stem).to(config.device)
    if stem is not None and "," in config.extractor["backbone"] and config.standardize == NONE:
        stem = nn.Sequential(stem, StandardUnits(math.prod(task.input_shape), FARTHEST))
    return Predictor(build_algorithm(config, task), stem, temperature).to(config.device)


def network_of_run(config: RunConfig, task: Task, folder: Path) -> Predictor:
    """Return the network of a run, with the weights that the run evaluates."""
    unweighted = without_starting_weights(config, config.device)
    trained = build_algorithm(unweighted, task)
    with weights_in_place(folder, config, trained, read_checkpoint(folder)):
        weights = Predictor(trained).weights()
    network = Predictor(build_algorithm(unweighted, task))
    network.load(weights)
    return network


def with_stem(
    network: Predictor | RowPredictor,
    features: FrozenFeatures,
    fitted: FittedColumns | None,
    device: str,
) -> Predictor:
    """Return a predictor that also computes the features with the frozen network."""
    stem, learner = features.network(), network.algorithm
    if isinstance(fitted, FittedColumns) and not isinstance(learner, Exact):
        # Several networks: their features in standard units.
        scaled = [part for part in fitted.parts if isinstance(part, Scaled)]
        units = StandardUnits(len(scaled), FARTHEST)
        units.columns = torch.tensor([part.column for part in scaled])
        units.mean = torch.tensor([part.mean for part in scaled])
        units.std = torch.tensor([part.std for part in scaled])
        stem = nn.Sequential(stem, units)
    return Predictor(learner, stem.to(device), network.temperature)


@torch.no_grad()
def standardized_features(
    network: Predictor | RowPredictor,
    standardize: str,
    inputs: Inputs,
    sites: Sequence[str] | None,
    device: str,
    workers: int | None = None,
) -> tuple[Predictor | RowPredictor, ReadyInputs]:
    """Return the network after the features, and its standardised inputs.

    The mean and standard deviation of a site are computed from all its given rows, independently of
    the batch size.  For images, the features of the frozen network are standardised, not the
    images; so these features are computed first, and the returned network excludes the frozen one.
    """
    parts = []
    for batch, _ in read_in_order(without_labels(inputs), reading_threads(workers)):
        rows = as_numbers(batch.to(device))
        parts.append((rows if network.stem is None else network.stem(rows)).float().cpu())
    x = torch.cat(parts).numpy()
    categorical = np.zeros(x.shape[1], dtype=bool)
    standard = as_ready(standardized_by_site(x, sites, categorical, standardize).astype(x.dtype))
    if isinstance(network.algorithm, Exact):
        return RowPredictor(network.algorithm), standard
    return Predictor(network.algorithm, temperature=network.temperature), standard
