"""Inputs of a new site, standardised by its own rows where the model was trained so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.standardize import AUTO, NONE
from shiftproof.data import Domain
from shiftproof.data.domain import as_numbers
from shiftproof.data.input_forms import InputForm, Inputs, TableForm
from shiftproof.data.within_domain import both_views, standardized_by_site
from shiftproof.inference.predictor import Predictor
from shiftproof.training.evaluate import EvaluationSet, read_in_order, reading_threads


def standardized_inputs(
    network: Predictor,
    form: InputForm,
    standardize: str,
    inputs: Inputs,
    sites: Sequence[str] | None,
    device: str,
    workers: int | None = None,
) -> tuple[Predictor, Inputs]:
    """Return the network to call, and what it takes, from inputs as the form reads them.

    The mean and spread of a site are those of all its rows here, whatever the size of batches.
    The features that a frozen network computes of images are standardised, not the images; so they
    are computed first, and the network is the rest of it.
    """
    if standardize == NONE:
        return network, inputs
    if isinstance(form, TableForm):
        return network, form.within_sites(torch.as_tensor(inputs), sites)
    rest = Predictor(network.algorithm, temperature=network.temperature)
    x = _features(network, inputs, device, workers)
    categorical = np.zeros(x.shape[1], dtype=bool)
    if standardize == AUTO:
        return rest, both_views(x, sites, categorical)
    found = standardized_by_site(x.numpy(), sites, categorical, standardize)
    return rest, torch.from_numpy(found).to(x.dtype)


@torch.no_grad()
def _features(network: Predictor, inputs: Inputs, device: str, workers: int | None) -> Tensor:
    """Return the features of all inputs, [n, k]; arrays are their own."""
    domain = Domain("inputs", inputs, torch.zeros(len(inputs), dtype=torch.int64))
    subset = EvaluationSet(domain.name, domain, np.arange(len(domain)))
    parts = []
    for x, _ in read_in_order(subset, reading_threads(workers)):
        rows = as_numbers(x.to(device))
        parts.append((rows if network.stem is None else network.stem(rows)).float().cpu())
    return torch.cat(parts)
