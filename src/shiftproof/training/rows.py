"""The training samples of a run as arrays, for algorithms that are fitted at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shiftproof.data import Domain, DomainDataset
from shiftproof.data.domain import as_numbers
from shiftproof.data.tables.preprocessing import Columns
from shiftproof.learners.samples import Samples


def samples_of(
    dataset: DomainDataset, domains: Sequence[Domain], trained_on: Sequence[np.ndarray]
) -> Samples:
    """Return the samples of some domains that a run trains on, one row each.

    Cells of a table stay raw; other inputs are flattened.  Values are rounded to float32, as they
    are when the model predicts.
    """
    pairs = list(zip(domains, trained_on, strict=True))
    rows = [as_numbers(domain.stored(index)).flatten(1).cpu().numpy() for domain, index in pairs]
    x = np.concatenate(rows).astype(np.float64)
    categorical = np.zeros(x.shape[1], dtype=bool)
    if isinstance(dataset.preparation, Columns):
        kinds = [column.kind for column in dataset.preparation.columns]
        categorical = np.array([kind == "category" for kind in kinds])
    return Samples(
        x,
        np.concatenate([domain.labels(index).cpu().numpy() for domain, index in pairs]),
        np.repeat(np.arange(len(pairs)), [len(index) for _, index in pairs]),
        len(dataset.classes),
        categorical,
    )
