"""Standardise the rows of each domain (site) with its own mean and standard deviation.

Sites differ in units, devices and populations.  If the difference is a shift and a scale of each
column, x ↦ a x + b with a > 0, it is removed by

    z = (x − mean of the site) / standard deviation of the site.

`whiten` also removes the correlations between columns, as CORAL does for features of networks
(Sun, Feng and Saenko, 2016, *Return of Frustratingly Easy Domain Adaptation*): the centred rows
are multiplied by Σ^(−1/2), where Σ is the site's covariance with the shrinkage of Ledoit and Wolf
(2004), which makes it invertible.

No labels are used, but other rows of the same site are: this is adaptation.  Meaningful differences
between sites (sicker patients) are removed too, so it must be judged on held-out domains.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.standardize import ADAPTATION, DOMAIN, NONE, WHITEN, checked_standardize
from shiftproof.core.text import counted
from shiftproof.data.base import DomainDataset
from shiftproof.data.domain import Domain, as_float_rows
from shiftproof.data.tables.preprocessing import FEWEST_ROWS, Scaled, statistics

# The site name of rows whose site is not given.
NEW_SITE = "new site"


def standardized(x: np.ndarray, categorical: np.ndarray, how: str) -> np.ndarray:
    """Standardise the rows [n, d] of one site with their own statistics; return float64.

    Missing values (NaN) are ignored and kept; `categorical` [d] columns are unchanged; a constant
    column becomes 0.
    """
    x = x.astype(np.float64)
    if np.isinf(x[:, ~categorical]).any():
        raise DataError("infinite values among the rows; replace them")
    if how == WHITEN:
        return _whitened(x, categorical)
    for column in np.flatnonzero(~categorical):
        cells = x[:, column]
        there = ~np.isnan(cells)
        values = cells[there]
        if len(values) and (values != values[0]).any():
            cells[there] = Scaled(int(column), *statistics(values)).apply(values)[:, 0]
        else:
            cells[there] = 0.0
    return x


def _whitened(x: np.ndarray, categorical: np.ndarray) -> np.ndarray:
    """Return (x − mean) Σ^(−1/2) with the Ledoit-Wolf covariance Σ."""
    from sklearn.covariance import ledoit_wolf

    if categorical.any() or np.isnan(x).any():
        raise DataError(
            "whitening needs numeric columns without missing values, such as features and"
            f" embeddings; use `standardize={DOMAIN!r}` instead"
        )
    centred = x - x.mean(axis=0)
    covariance, _ = ledoit_wolf(centred, assume_centered=True)
    values, vectors = np.linalg.eigh(np.atleast_2d(covariance))
    if values.max() <= 0:  # all rows are equal
        zeros: np.ndarray = centred
        return zeros
    # Directions without variance stay so; the lower bound avoids a division by 0.
    root = np.sqrt(np.maximum(values, values.max() * 1e-12))
    white: np.ndarray = centred @ (vectors / root) @ vectors.T
    return white


def standardized_by_site(
    x: np.ndarray, sites: Sequence[str] | None, categorical: np.ndarray, how: str
) -> np.ndarray:
    """Standardise rows [n, d] separately within each site.

    `sites` gives the site of each row; None means that all rows belong to one site.
    """
    names = np.array([NEW_SITE] * len(x) if sites is None else list(sites), dtype=object)
    standard = np.empty(x.shape)
    for site in dict.fromkeys(names):
        rows = names == site
        if (count := int(rows.sum())) < FEWEST_ROWS:
            raise DataError(
                f"{site}: {counted(count, 'row')}, but standardizing a site by its mean and spread"
                f" needs at least {FEWEST_ROWS}; pass all rows of the site at once, or train"
                " without standardizing"
            )
        standard[rows] = standardized(x[rows], categorical, how)
    return standard


def categorical_columns(dataset: DomainDataset) -> np.ndarray:
    """Return a mask [d] of the columns of a dataset that hold category codes."""
    if dataset.preparation is None:
        return np.zeros(dataset.input_shape[0], dtype=bool)
    return dataset.preparation.are_categories


def within_domains(dataset: DomainDataset, how: str) -> DomainDataset:
    """Return the dataset, with a new fingerprint, for training with `standardize=how`.

    Each domain is standardised separately.
    """
    if checked_standardize(how) == NONE:
        return dataset
    if dataset.standardize != NONE:
        raise InvalidValue(f"{dataset.name} is {ADAPTATION[dataset.standardize]} already")
    if len(dataset.input_shape) != 1:
        raise InvalidValue(
            f"`standardize` is for tables, arrays and features, but {dataset.name} has images;"
            " use `freeze` to compute features first"
        )
    categorical = categorical_columns(dataset)
    described = json.dumps([dataset.fingerprint, how])
    changed = replace(
        dataset,
        standardize=how,
        # Features of several networks then need no further standardisation.
        preparation=None if dataset.frozen else dataset.preparation,
        identity=hashlib.sha256(described.encode()).hexdigest()[:16],
    )

    def standard(domain: Domain) -> Domain:
        rows = domain.rows()
        x = rows if rows.dtype.kind == "f" else as_float_rows(rows)
        sites = [f"domain {domain.name!r}"] * len(domain)
        return domain.having(x=standardized_by_site(x, sites, categorical, how).astype(x.dtype))

    return changed.with_domains(standard)
