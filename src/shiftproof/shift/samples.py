"""Convert a dataset to arrays that can be measured.

Tables become their prepared columns, images their pixels, and frozen images their features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import listed, quoted
from shiftproof.data import Domain, DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.data.domain import as_numbers
from shiftproof.data.tables.preprocessing import Columns, FittedColumns
from shiftproof.shift.advise import About
from shiftproof.shift.localize import stratified
from shiftproof.training.evaluate import read_in_order
from shiftproof.training.evaluation_sets import EvaluationSet, reading_threads

# The most features per sample: the covariances of more would take minutes.
MOST_FEATURES = 4096
# A table column is unevenly missing if its missing shares differ by this much between domains.
UNEVEN = 0.2
# Integer columns with at most this many values, or with such a name, may be codes.
FEW_VALUES = 5
CODE = re.compile(r"(^|[_ .-])(zip|postal|postcode|code|id)([_ .-]?code)?($|[_ .-])", re.I)

# Domain name to the positions of samples within the domain.
Positions = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Samples:
    """Arrays x [n, k], y [n] and d [n], the names that their codes stand for, and notes.

    `inputs` briefly describes the features, and `about` has what the advice depends on.
    """

    x: np.ndarray
    y: np.ndarray
    d: np.ndarray
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    features: tuple[str, ...]
    inputs: str
    notes: tuple[str, ...]
    about: About


def choose_domains(
    dataset: DomainDataset, wanted: Sequence[str] = (), held_out: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the domains to measure: the wanted ones (by default all) without those held out."""
    for name in (*wanted, *held_out):
        dataset.index_of(name)
    chosen = tuple(
        name
        for name in dataset.domain_names
        if name not in held_out and (not wanted or name in wanted)
    )
    if len(chosen) < 2:
        raise DataError(
            f"at least two domains are needed to measure a shift, but {len(chosen)}"
            f" {'is' if len(chosen) == 1 else 'are'} selected; {dataset.name} has"
            f" {', '.join(map(quoted, dataset.domain_names))}"
        )
    return chosen


def every_sample(dataset: DomainDataset, domains: Sequence[str]) -> Positions:
    """Return all positions of the given domains."""
    return {d.name: np.arange(len(d)) for d in dataset.domains if d.name in domains}


def some_of(positions: Positions, most: int, seed: int) -> Positions:
    """Return at most `most` of the positions, chosen by `seed` (see `stratified`)."""
    sizes = [len(rows) for rows in positions.values()]
    starts = np.cumsum([0, *sizes])
    chosen = stratified(np.repeat(np.arange(len(sizes)), sizes), most, seed)
    return {
        name: rows[chosen[(chosen >= start) & (chosen < end)] - start]
        for (name, rows), start, end in zip(positions.items(), starts, starts[1:], strict=False)
    }


def collect(
    dataset: DomainDataset,
    positions: Positions,
    *,
    side: int | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> Samples:
    """Read the samples at `positions`; the preparation of a table is fitted to these samples.

    Images with more than `side` pixels per side are averaged down to that size.
    """
    shape = dataset.input_shape
    if side is not None and len(shape) == 3:
        shape = (shape[0], min(shape[1], side), min(shape[2], side))
    if int(np.prod(shape)) > MOST_FEATURES:
        raise InvalidValue(
            f"each sample has {int(np.prod(shape)):,} values, and at most {MOST_FEATURES:,} can be"
            " measured; measure the features of a network (`backbone`, `weights`), or"
            " coarse pixels (`raw`)"
        )
    domains = [domain for domain in dataset.domains if domain.name in positions]
    x = torch.cat(list(_inputs(dataset, positions, shape, reading_threads(workers), progress)))
    y = torch.cat([domain.y[torch.from_numpy(positions[domain.name])] for domain in domains])
    d = np.repeat(np.arange(len(domains)), [len(positions[domain.name]) for domain in domains])
    names = tuple(domain.name for domain in domains)
    notes = dataset.notes
    features, inputs = _places(dataset, shape)
    about = About("images" if len(shape) == 3 else "embeddings")
    if dataset.preparation is not None:
        fitted = dataset.preparation.fit(x.numpy())
        notes += fitted.notes
        if isinstance(fitted, FittedColumns):
            features, inputs = fitted.feature_names, f"{len(fitted.parts)} columns"
            uneven, missing = _unevenly_missing(fitted.columns, x.numpy(), d, names)
            about = About("table", _codes(fitted.columns, x.numpy()), uneven)
            notes += missing
        x = torch.from_numpy(fitted.apply(x.numpy()))
    arrays = (x.numpy(), y.numpy(), d)
    return Samples(*arrays, names, dataset.classes, features, inputs, notes, about)


def _inputs(
    dataset: DomainDataset,
    positions: Positions,
    shape: tuple[int, ...],
    workers: int,
    progress: Progress,
) -> Iterator[Tensor]:
    """Yield flattened inputs batch by batch: table cells unchanged, pixels in [0, 1]."""
    total, done = sum(map(len, positions.values())), 0
    for domain, x, _ in batches(dataset, positions, workers):
        done += len(x)
        if domain.is_lazy:
            progress("reading images", done, total)
        if dataset.preparation is None:
            x = as_numbers(x)
        if tuple(x.shape[1:]) != shape:
            x = F.adaptive_avg_pool2d(x, (shape[1], shape[2]))
        yield x.flatten(1)


def batches(
    dataset: DomainDataset, positions: Positions, workers: int
) -> Iterator[tuple[Domain, Tensor, Tensor]]:
    """Yield the samples at `positions` in order: domain, inputs and labels."""
    for domain in dataset.domains:
        if domain.name in positions:
            subset = EvaluationSet(domain.name, domain, positions[domain.name])
            for x, y in read_in_order(subset, workers):
                yield domain, x, y


def _places(dataset: DomainDataset, shape: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Return names of the features by position, and a description."""
    if len(shape) != 3:
        count = int(np.prod(shape))
        network = f" of {dataset.frozen['backbone']}" if dataset.frozen else ""
        return tuple(f"feature {i}" for i in range(count)), f"{count:,} features{network}"
    channels, height, width = shape
    names = tuple(
        f"row {row}, column {column}" + (f", channel {channel}" if channels > 1 else "")
        for channel in range(channels)
        for row in range(height)
        for column in range(width)
    )
    return names, f"pixels of {' × '.join(map(str, shape))} images"


def _unevenly_missing(
    columns: Columns, cells: np.ndarray, d: np.ndarray, domains: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return columns that some domains lack, and a note that imputing their median is a shift."""
    missing = np.stack([np.isnan(cells[d == code]).mean(axis=0) for code in range(len(domains))])
    spread = missing.max(axis=0) - missing.min(axis=0)
    uneven = [i for i in np.argsort(-spread, kind="stable") if spread[i] >= UNEVEN]
    if not uneven:
        return (), ()
    first = uneven[0]
    low, high = int(missing[:, first].argmin()), int(missing[:, first].argmax())
    named = tuple(columns.columns[i].name for i in uneven)
    note = (
        f"{listed(list(named))}: missing more often in some domains than in others"
        f" ({quoted(named[0])}: {missing[low, first]:.0%} in {domains[low]},"
        f" {missing[high, first]:.0%} in {domains[high]}); imputing the median can look like a"
        " shift; you can leave these columns out (`drop`)"
    )
    return named, (note,)


def _codes(columns: Columns, cells: np.ndarray) -> tuple[str, ...]:
    """Return integer columns that may be codes: few values, or a name that suggests it."""
    names = []
    for position, column in enumerate(columns.columns):
        known = np.unique(cells[:, position][~np.isnan(cells[:, position])])
        integers = column.kind == "number" and len(known) >= 3 and not (known % 1).any()
        if integers and (len(known) <= FEW_VALUES or CODE.search(column.name)):
            names.append(column.name)
    return tuple(names)
