"""Feature files: Parquet with the label, the domain and the feature vectors of each sample.

Any program can read the columns.  The header also records which networks computed the features, and
the order of classes and domains, so that a run on the file is identical to a run on the features
themselves, to the last bit.  The features of one network are used unchanged, and those of several
networks are standardised, as in `training.features`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftproof.core.errors import DataError, UnknownName
from shiftproof.core.migrations import current, with_format
from shiftproof.core.text import listed, printable, quoted, reason_of
from shiftproof.data.base import DomainDataset
from shiftproof.data.domain import Domain, as_float_rows
from shiftproof.data.tables.cell_types import Cells, cells_of
from shiftproof.data.tables.preprocessing import Column, Columns
from shiftproof.data.tables.vectors import component_names, list_block

LABEL, DOMAIN, EXTRA = "label", "domain", "extra"
# The metadata key of the header.
KEY = b"shiftproof.features"


def feature_bytes(networks: Mapping[str, DomainDataset]) -> bytes:
    """Return a feature file as bytes; `networks` maps network names to a dataset's features."""
    import pyarrow.parquet as pq

    first = next(iter(networks.values()))
    parts = (*first.domains, *first.extras)
    label: Any = np.concatenate([domain.label_array for domain in parts])
    if not first.target:
        label = pa.array(np.array(first.classes, dtype=object)[label].tolist(), pa.string())
    names = [name for domain in parts for name in [domain.name] * len(domain)]
    columns: dict[str, Any] = {LABEL: label, DOMAIN: pa.array(names, pa.string())}
    if first.extras:
        sizes = [len(domain) for domain in parts]
        columns[EXTRA] = np.repeat([False] * len(first.domains) + [True] * len(first.extras), sizes)
    for name, dataset in networks.items():
        rows = [as_float_rows(d.rows()) for d in (*dataset.domains, *dataset.extras)]
        block = np.concatenate(rows)
        columns[name] = pa.FixedSizeListArray.from_arrays(block.reshape(-1), block.shape[1])
    header = {
        "dataset": first.name,
        "classes": list(first.classes),
        "target": first.target,
        "domains": [domain.name for domain in first.domains],
        "extras": [domain.name for domain in first.extras],
        "eval_every": first.eval_every,
        "networks": {name: dict(dataset.frozen) for name, dataset in networks.items()},
    }
    table = pa.table(columns)
    described = {KEY: json.dumps(with_format(header), ensure_ascii=False).encode()}
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(described), file, compression="zstd")
    return file.getvalue()


def feature_header(path: Path) -> dict[str, Any] | None:
    """Return the header of a feature file, or None for any other file."""
    import pyarrow.parquet as pq

    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            return None
    try:
        stored = (pq.read_schema(path).metadata or {}).get(KEY)
        header = None if stored is None else dict(json.loads(stored))
    except (pa.ArrowException, OSError, TypeError, ValueError, RecursionError):
        return None  # reading the table will report the error
    return None if header is None else current(header, "features", path.name)


def feature_dataset(path: Path, header: Mapping[str, Any], drop: Sequence[str]) -> DomainDataset:
    """Return a feature file as a dataset, without the networks in `drop`."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        used = [name for name in header["networks"] if name not in drop]
        unknown = [name for name in drop if name not in header["networks"]]
        if unknown:
            raise UnknownName(f"network of {path.name}", unknown[0], header["networks"])
        if not used:
            raise DataError(
                f"`drop` must leave at least one network of {path.name}, not drop all of"
                f" {listed(list(header['networks']))}"
            )
        if len(table) == 0:
            raise DataError(f"{path.name} has no rows")
        blocks = [_block(table.column(name), name, path) for name in used]
        known_domains = (*header["domains"], *header["extras"])
        domain, domains = _codes(cells_of(table, DOMAIN), known_domains, path)
        classes: tuple[str, ...] = ()
        if header["target"]:
            label = cells_of(table, LABEL).numbers(f"column {quoted(LABEL)} of {path.name}")
        else:
            label, classes = _codes(cells_of(table, LABEL), header["classes"], path)
            if len(set(label.tolist())) < 2:
                raise DataError(
                    f"{path.name} has one class only, {quoted(classes[label[0]])}; at least two are"
                    " needed"
                )
        has_extra = EXTRA in table.column_names
        extra = table.column(EXTRA).to_numpy() if has_extra else np.zeros(len(table), dtype=bool)
        if extra.dtype != bool:
            raise DataError(f"column {quoted(EXTRA)} of {path.name} must be true or false")
        if extra.all():
            raise DataError(f"{path.name} has no domain to train on: all are extra")
        x = np.concatenate(blocks, axis=1)
        parts: dict[bool, list[Domain]] = {False: [], True: []}
        for code in np.unique(domain):
            rows = np.flatnonzero(domain == code)
            parts[bool(extra[rows[0]])].append(Domain(domains[code], x[rows], label[rows]))
        networks = [
            printable("{backbone} ({weights}, {precision})".format_map(header["networks"][name]))
            for name in used
        ]
        notes = [f"features of {'; '.join(networks)}"]
        read = {LABEL, DOMAIN, EXTRA, *header["networks"]}
        if others := [name for name in table.column_names if name not in read]:
            notes.append(f"left out, because {path.name} is a file of features: {listed(others)}")
        dataset = DomainDataset(
            path.name,
            tuple(parts[False]),
            classes,
            regime="features",
            backbone="mlp",
            eval_every=int(header["eval_every"]),
            extras=tuple(parts[True]),
            notes=tuple(notes),
            columns={"label": LABEL, "domain": DOMAIN},
            targets=(str(header["target"]),) if header["target"] else (),
        )
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"{path.name} is not a file of features ({reason_of(error, 120)}); write it again"
        ) from error
    columns = [
        Column(component, "number")
        for name, block in zip(used, blocks, strict=True)
        for component in component_names(name, block.shape[1])
    ]
    return replace(dataset, preparation=Columns(tuple(columns))) if len(used) > 1 else dataset


def _block(column: Any, name: str, path: Path) -> np.ndarray:
    block = list_block(column, name, path.name)
    if block is None:
        raise DataError(f"column {quoted(name)} of {path.name} holds no vectors")
    if not np.isfinite(block).all():
        row = int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0]) + 1
        raise DataError(
            f"column {quoted(name)} of {path.name} has a missing or infinite value in row {row}"
        )
    return block.astype(np.float32, copy=False)


def _codes(column: Cells, known: Sequence[str], path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the index of each row's name, and all names; a missing name is an error.

    Names that are not in the header, from rows added later, come last.
    """
    codes, values = column.texts
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0]) + 1
        raise DataError(f"column {quoted(column.name)} of {path.name} is empty in row {row}")
    names = (*map(str, known), *sorted(set(values) - set(known)))
    return np.array([names.index(value) for value in values])[codes], names
