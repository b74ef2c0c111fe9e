"""The network of a finished run, with the weights that the run evaluates."""

from __future__ import annotations

from pathlib import Path

from shiftproof.core.types import Task
from shiftproof.data.base import FittedPreparation
from shiftproof.data.tables.preprocessing import FittedColumns
from shiftproof.inference.predictor import Predictor, StemPredictor
from shiftproof.inference.row_predictor import RowPredictor
from shiftproof.inference.stem import in_standard_units
from shiftproof.learners.exact import Exact
from shiftproof.training.checkpoint import read_checkpoint, weights_in_place
from shiftproof.training.config import RunConfig
from shiftproof.training.frozen_features import FrozenFeatures
from shiftproof.training.run_folder import without_starting_weights
from shiftproof.training.trainer import build_algorithm


def network_of_run(config: RunConfig, task: Task, folder: Path) -> Predictor:
    """Return the network of a run, with the weights that the run evaluates."""
    unweighted = without_starting_weights(config, config.device)
    trained = build_algorithm(unweighted, task)
    with weights_in_place(folder, config, trained, read_checkpoint(folder)):
        weights = Predictor(trained).weights()
    network = Predictor(build_algorithm(unweighted, task))
    network.load(weights)
    return network


def with_temperature(network: Predictor | RowPredictor, temperature: float) -> Predictor:
    """Return the network with its logits divided by a temperature."""
    return Predictor(network.algorithm, temperature=temperature)


def with_stem(
    network: Predictor | RowPredictor,
    features: FrozenFeatures,
    fitted: FittedPreparation | None,
    device: str,
) -> Predictor:
    """Return a predictor that also computes the features with the frozen network."""
    stem = features.network()
    if isinstance(network.algorithm, Exact):
        return StemPredictor(network.algorithm, stem.to(device))
    if isinstance(fitted, FittedColumns):
        stem = in_standard_units(stem, fitted)
    return Predictor(network.algorithm, stem.to(device), network.temperature)
