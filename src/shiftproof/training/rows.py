"""The training samples of a run as arrays, for algorithms that are fitted at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shiftproof.data import Domain, DomainDataset
from shiftproof.data.domain import as_numbers
from shiftproof.data.tables.preprocessing import Column, Columns
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
    columns = dataset.preparation.columns if isinstance(dataset.preparation, Columns) else ()
    categorical = np.zeros(x.shape[1], dtype=bool)
    if columns:
        categorical = np.array([column.kind == "category" for column in columns])
    # The columns of an array are numbered: they have no names of their own.
    named = columns != tuple(Column(str(place), "number") for place in range(len(columns)))
    return Samples(
        x,
        np.concatenate([domain.labels(index).cpu().numpy() for domain, index in pairs]),
        np.repeat(np.arange(len(pairs)), [len(index) for _, index in pairs]),
        len(dataset.classes),
        categorical,
        dataset.classes,
        columns if named else (),
    )
