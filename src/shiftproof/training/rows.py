"""The training samples of a run as arrays, for algorithms that are fitted at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shiftproof.core.types import CLASSIFICATION, CROSS_ENTROPY, Task
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.domain import as_float_rows
from shiftproof.data.tables.preprocessing import Column, Columns, FittedColumns
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.samples import Samples


def ready_for(
    algorithm: str, dataset: DomainDataset, fitted: FittedColumns | None
) -> DomainDataset:
    """Return the dataset in the form that an algorithm expects.

    For networks the inputs are prepared.  Algorithms that are fitted at once get raw rows, in which
    only rare values are pooled (see `FittedColumns.pooled`).
    """
    if not ALGORITHMS.get(algorithm).exact:
        return dataset.prepared(fitted)
    if dataset.frozen:  # such algorithms standardise by themselves
        dataset = replace(dataset, preparation=None, identity=dataset.fingerprint)
        fitted = None
    return _pooled(dataset, fitted) if isinstance(fitted, FittedColumns) else dataset


def _pooled(dataset: DomainDataset, fitted: FittedColumns) -> DomainDataset:
    def pool(domain: Domain) -> Domain:
        return domain.having(x=fitted.pooled(domain.rows()))

    return replace(
        dataset.with_domains(pool),
        preparation=fitted.columns,
        identity=dataset.fingerprint,
        notes=(*dataset.notes, *fitted.notes),
    )


def in_standard_units(dataset: DomainDataset, task: Task) -> DomainDataset:
    """Return the dataset with numeric labels in standard units; classes stay as they are."""
    if task.kind == CLASSIFICATION:
        return dataset

    def standardize(domain: Domain) -> Domain:
        return domain.having(y=task.in_standard_units(domain.label_array))

    return replace(dataset.with_domains(standardize), identity=dataset.fingerprint)


def samples_of(
    dataset: DomainDataset,
    domains: Sequence[Domain],
    trained_on: Sequence[np.ndarray],
    *,
    private: bool = False,
    loss: str = CROSS_ENTROPY,
) -> Samples:
    """Return the training samples of some domains, one row each.

    Cells of a table stay raw; other inputs are flattened.  Values are rounded to float32, as in
    prediction.
    """
    pairs = list(zip(domains, trained_on, strict=True))
    rows = [as_float_rows(domain.rows(index)).reshape(len(index), -1) for domain, index in pairs]
    x = np.concatenate(rows).astype(np.float64)
    columns = dataset.preparation.columns if isinstance(dataset.preparation, Columns) else ()
    categories = [column.kind == "category" for column in columns] or [False] * x.shape[1]
    # The columns of an array are only numbered, not named.
    named = columns != tuple(Column(str(number), "number") for number in range(len(columns)))
    return Samples(
        x,
        np.concatenate([domain.label_array[index] for domain, index in pairs]),
        np.repeat(np.arange(len(pairs)), [len(index) for _, index in pairs]),
        len(dataset.classes),
        np.array(categories),
        dataset.classes,
        columns if named else (),
        private,
        loss,
    )
