"""Features of a new site, standardised by its own rows if the model was trained so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from shiftproof.data import Domain
from shiftproof.data.domain import as_numbers
from shiftproof.data.input_forms import Inputs, ReadyInputs, as_ready
from shiftproof.data.within_domain import standardized_by_site
from shiftproof.inference.predictor import Predictor
from shiftproof.inference.row_predictor import RowPredictor
from shiftproof.learners.exact import Exact
from shiftproof.training.evaluate import read_in_order
from shiftproof.training.evaluation_sets import EvaluationSet, reading_threads


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
    x = _features(network, inputs, device, workers)
    categorical = np.zeros(x.shape[1], dtype=bool)
    standard = standardized_by_site(x, sites, categorical, standardize).astype(x.dtype)
    return _rest(network), as_ready(standard)


def _rest(network: Predictor | RowPredictor) -> Predictor | RowPredictor:
    """Return the part of the network after the features."""
    if isinstance(network.algorithm, Exact):
        return RowPredictor(network.algorithm)
    return Predictor(network.algorithm, temperature=network.temperature)


@torch.no_grad()
def _features(
    network: Predictor | RowPredictor, inputs: Inputs, device: str, workers: int | None
) -> np.ndarray:
    """Return the features of all inputs, [n, k]; without a frozen network, the inputs."""
    domain = Domain("inputs", inputs, np.zeros(len(inputs), dtype=np.int64))
    subset = EvaluationSet(domain.name, domain, np.arange(len(domain)))
    parts = []
    for x, _ in read_in_order(subset, reading_threads(workers)):
        rows = as_numbers(x.to(device))
        parts.append((rows if network.stem is None else network.stem(rows)).float().cpu())
    found: np.ndarray = torch.cat(parts).numpy()
    return found
