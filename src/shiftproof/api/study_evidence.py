"""What the page of a study shows of the data: far inputs, confident errors, shifted columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from shiftproof.api.diagnose import ShiftReport
from shiftproof.api.train_each import LeaveOneOut
from shiftproof.api.trained_run import TrainedRun
from shiftproof.data import DomainDataset
from shiftproof.data.domain import Domain, as_float_rows
from shiftproof.data.input_forms import TableForm, as_ready
from shiftproof.data.tables.preprocessing import Column, Columns
from shiftproof.metrics.outputs import Outputs
from shiftproof.reporting.page.evidence import (
    ColumnByDomain,
    ConfidentError,
    Evidence,
    image_address,
)
from shiftproof.reporting.page.sentences import noun_of

MOST_ERRORS = 8
MOST_COLUMNS = 4
# Rows used to estimate a share: more would hardly change it, and networks are slow.
MOST_ROWS = 1000
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
IMAGES_A_DOMAIN = 8


def evidence(
    dataset: DomainDataset,
    raw: DomainDataset,
    held_out: LeaveOneOut,
    diagnosis: ShiftReport,
    seconds: float,
    *,
    private: bool = False,
) -> Evidence:
    """Return what the page shows of the data itself.

    `raw` is the data before feature extraction by a frozen network; its images are shown.  With
    `private`, no single samples are shown.  Only classifiers have confident errors.
    """
    domains = {domain.name: domain for domain in dataset.domains}
    columns = _columns(dataset)
    features = [feature.name for feature in diagnosis.measured.features]
    ordered = _by_shift(columns, features)
    numbers = [at for at in ordered if columns[at].kind == "number"][:MOST_COLUMNS]
    basis = Evidence(
        noun_of(dataset.columns),
        dataset.columns.get("label", ""),
        sum(map(len, dataset.domains)),
        len(columns),
        round(seconds, 1),
        {run.config.test_domains[0]: far_share(run, domains) for run in held_out.runs},
    )
    if private:
        return basis
    shifted = []
    if dataset.targets:
        shifted.append(_by_domain(dataset.target, {d.name: d.label_array for d in dataset.domains}))
    for at in numbers:
        cells = {domain.name: domain.rows()[:, at] for domain in dataset.domains}
        shifted.append(_by_domain(columns[at].name, cells))
    return replace(
        basis,
        errors=confident_errors(raw, held_out.expected.of_classes, ordered),
        shifted=shifted,
        images={d.name: _some_images(d) for d in raw.domains if _is_image(d)},
    )


def far_share(run: TrainedRun, domains: Mapping[str, Domain]) -> float | None:
    """Return the share of the held-out domain that is unlike the training domains."""
    domain, model = domains[run.config.test_domains[0]], run.model
    # The model of a frozen network takes images, not features.
    if model.typicality is None or model.config.extractor:
        return None
    index = np.arange(len(domain))
    if len(index) > MOST_ROWS:
        index = np.sort(np.random.default_rng(0).choice(index, MOST_ROWS, replace=False))
    x = domain.rows(index)
    if not isinstance(model.form, TableForm):
        predict = model.predict_numbers if model.targets else model.predict
        return predict(as_ready(x)).far_share
    _, ready = model.ready(model.form.read(x), [domain.name] * len(index))
    seen = as_float_rows(model.form.features(np.asarray(ready)))
    return float(model.typicality.is_far(model.typicality.p_value(seen)).mean())


def confident_errors(
    dataset: DomainDataset, outputs: Mapping[str, Outputs], ordered: Sequence[int] = ()
) -> list[ConfidentError]:
    """Return the errors with the highest predicted probability, the most confident first."""
    candidates = []
    for name, part in outputs.items():
        predicted = part.probabilities.argmax(axis=1)
        sure = part.probabilities.max(axis=1)
        candidates += [
            (float(sure[i]), name, int(part.rows[i]), int(part.labels[i]), int(predicted[i]))
            for i in np.flatnonzero(predicted != part.labels)
        ]
    candidates.sort(key=lambda error: (-error[0], error[1], error[2]))
    columns, errors = _columns(dataset), []
    for probability, name, row, label, predicted in candidates[:MOST_ERRORS]:
        domain = dataset.domains[dataset.index_of(name)]
        cells = domain.rows(np.array([row]))
        errors.append(
            ConfidentError(
                name,
                row + 1,
                dataset.classes[label],
                dataset.classes[predicted],
                round(probability, 4),
                [(columns[at].name, _text(columns[at], float(cells[0, at]))) for at in ordered],
                _picture(as_float_rows(cells)[0]) if _is_image(domain) else "",
            )
        )
    return errors


def _columns(dataset: DomainDataset) -> tuple[Column, ...]:
    preparation = dataset.preparation
    return preparation.columns if isinstance(preparation, Columns) else ()


def _by_shift(columns: Sequence[Column], features: Sequence[str]) -> list[int]:
    """Return the positions of the columns, those that differ most between domains first.

    A feature is a column, or one value of a categorical column.
    """
    rank = {name: position for position, name in enumerate(features)}

    def order(column: Column) -> int:
        names = [column.name, *(f"{column.name}={value}" for value in column.values)]
        return min((rank[name] for name in names if name in rank), default=len(rank))

    return sorted(range(len(columns)), key=lambda at: order(columns[at]))


def _by_domain(name: str, cells: Mapping[str, np.ndarray]) -> ColumnByDomain:
    """Return the quantiles of a column, or of a numeric label, in each domain."""
    quantiles: dict[str, Sequence[float] | None] = {}
    missing = {}
    for domain, values in cells.items():
        there = values[~np.isnan(values)].astype(np.float64)
        missing[domain] = 1 - len(there) / len(values)
        five = np.quantile(there, QUANTILES) if len(there) else None
        quantiles[domain] = None if five is None else [float(value) for value in five]
    return ColumnByDomain(name, quantiles, missing)


def _text(column: Column, cell: float) -> str:
    if np.isnan(cell):
        return "missing"
    if column.kind == "category":
        return column.values[int(cell)] if cell >= 0 else "unknown"
    return f"{cell:.6g}"


def _is_image(domain: Domain) -> bool:
    return len(domain.shape) == 4 and domain.shape[1] in (1, 2, 3)


def _some_images(domain: Domain) -> list[str]:
    """Return pictures of a few samples, cycling through the classes."""
    # Numeric labels define no classes to cycle through.
    known = domain.label_array
    labels = np.zeros(len(domain)) if known.dtype.kind == "f" else known
    order = np.random.default_rng(0).permutation(len(labels))
    turns = [order[labels[order] == label] for label in np.unique(labels)]
    chosen = [rows[turn] for turn in range(IMAGES_A_DOMAIN) for rows in turns if turn < len(rows)]
    return [*map(_picture, as_float_rows(domain.rows(np.array(chosen[:IMAGES_A_DOMAIN]))))]


def _picture(image: np.ndarray) -> str:
    """Return an image [channels, height, width] in [0, 1] as a `data:` URL.

    Two channels are red and green, as in Colored MNIST.
    """
    if len(image) == 2:
        image = np.concatenate([image, np.zeros_like(image[:1])])
    return image_address(image.transpose(1, 2, 0))
