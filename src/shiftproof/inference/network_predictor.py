"""The predictor of a run with a network, either trained or frozen in front of a learner."""

from __future__ import annotations

from shiftproof.core.types import Task
from shiftproof.inference.predictor import Predictor, StemPredictor
from shiftproof.inference.stem import stem_of
from shiftproof.learners.base import ALGORITHMS
from shiftproof.training.config import RunConfig
from shiftproof.training.fitting import build_exact
from shiftproof.training.trainer import build_algorithm


def network_predictor(
    config: RunConfig, task: Task, input_shape: tuple[int, ...], temperature: float
) -> Predictor:
    """Return the predictor of a run, without its weights, on its device."""
    stem = stem_of(config, input_shape, task.input_shape) if config.frozen else None
    if ALGORITHMS.get(config.algorithm).exact:
        return StemPredictor(build_exact(config, task), stem).to(config.device)
    return Predictor(build_algorithm(config, task), stem, temperature).to(config.device)
