"""Read samples for a trained model from a path, a dataset name or a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, quoted
from shiftproof.data.base import DATASETS, Progress, silent
from shiftproof.data.domain import LazyInputs
from shiftproof.data.images.files import ImageFiles, ImageView
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.index import scan
from shiftproof.data.images.manifest import SUFFIX as CAMERA_TRAPS, camera_traps
from shiftproof.data.images.walk import SUFFIXES, image_root, images_below
from shiftproof.data.input_forms import (
    ImageForm,
    InputForm,
    Inputs,
    Samples,
    TableForm,
    as_ready,
)
from shiftproof.data.load import DataRequest
from shiftproof.data.not_data import refuse_address
from shiftproof.data.tables.array_files import array_samples, is_array_file
from shiftproof.data.tables.cell_types import cells_of
from shiftproof.data.tables.column_names import column_name
from shiftproof.data.tables.preprocessing import unseen_notes
from shiftproof.data.tables.read import as_table, is_frame, read_table
from shiftproof.data.tables.vectors import vectors_in

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# The name of a data frame in messages.
FRAME = "the data frame"


@dataclass(frozen=True)
class SampleRequest:
    """Which samples to read, and how.

    `data` must match the model's input form: a table or a data frame; a folder of images, one
    image, or a manifest; arrays (`data.tables.array_files`); or a dataset name, with its `options`.
    `label`, `domain` and `image` name columns, by default those of the model's training data
    (`usual`); `keep` names columns to copy to the output.  With `labelled`, labels are required,
    and a folder of images must have the layout DIR/domain/class/*.jpg.
    """

    data: str | pd.DataFrame
    label: str | None = None
    domain: str | None = None
    image: str | None = None
    keep: tuple[str, ...] = ()
    usual: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    labelled: bool = False

    def read(self, form: InputForm, seed: int, progress: Progress = silent) -> list[Samples]:
        """Read the samples: one part per domain for a dataset name, otherwise a single part."""
        if not isinstance(self.data, str):
            return [self._frame(self.data, form)]
        path = Path(self.data).expanduser()
        if self.data in DATASETS:
            return self._dataset(self.data, form, seed, progress)
        if self.options:
            raise InvalidValue(f"`options` are for dataset names, but {self.data} is a path")
        refuse_address(self.data)
        if not path.exists():
            raise DataError(f"no such file or folder: {self.data}")
        if is_array_file(path):
            return [self._array(path, form)]
        if path.suffix.lower() == CAMERA_TRAPS and path.is_file():
            return [self._traps(path, form, progress)]
        if isinstance(form, TableForm):
            if path.is_dir() or path.suffix.lower() in SUFFIXES:
                kind = "a folder" if path.is_dir() else "an image"
                raise DataError(f"{path} is {kind}, but the model takes rows of a table")
            if self.image is not None:
                raise InvalidValue("`image` is for models of images, but this one takes a table")
            return [self._rows(read_table(path), path.name, form)]
        if len(form.input_shape) == 1 and path.is_file():
            return [self._rows(read_table(path), path.name, form)]
        if not isinstance(form, ImageForm):
            shape = ", ".join(map(str, form.input_shape))
            raise DataError(
                f"the model takes arrays of shape [n, {shape}]: pass a .npy file or a dataset name,"
                f" not {path}"
            )
        if path.is_dir():
            return [self._folder(path, form, progress)]
        if path.suffix.lower() in SUFFIXES:
            if self.labelled:
                raise DataError(f"{path} is one image, without a label; pass DIR/domain/class/*")
            return [_images([path], form, progress)]
        return [self._manifest(path, form, progress)]

    def _frame(self, frame: pd.DataFrame, form: InputForm) -> Samples:
        if not is_frame(frame):
            raise DataError(
                f"`data` must be a path or a data frame, not {type(frame).__name__}; arrays and"
                " lists of image files are for the model's own `predict`"
            )
        if self.options:
            raise InvalidValue(f"`options` are for dataset names, not for {FRAME}")
        if isinstance(form, ImageForm):
            raise DataError(f"the model takes images, not {FRAME}: pass a folder or a list of them")
        return self._rows(as_table(frame, FRAME), FRAME, form)

    def _rows(self, rows: pa.Table, table: str, form: InputForm) -> Samples:
        inputs = self._inputs(rows, table, form)
        notes: tuple[str, ...] = ()
        if isinstance(form, TableForm):
            notes = tuple(unseen_notes(form.columns.columns, rows))
        return replace(self._described(rows, table, len(rows)), inputs=inputs, notes=notes)

    def _described(self, rows: pa.Table, table: str, count: int) -> Samples:
        """Return the names, labels and domains of a table's rows, without inputs."""

        def texts(role: str) -> list[str | None]:
            column = column_name(rows.column_names, table, role, self._column(role))
            return cells_of(rows, column).text_list

        names: dict[str, Sequence[Any]] = {"row": range(1, count + 1)}
        for given in self.keep:
            column = column_name(rows.column_names, table, "keep", given)
            names[column] = rows.column(column).to_pylist()
        labels = texts("label") if self.labelled else None
        domains = None
        plain = "by" not in self.usual  # with `by`, the column holds e.g. dates, not domains
        if self.domain is not None or (plain and self._column("domain") in rows.column_names):
            domains = ["none" if name is None else name for name in texts("domain")]
        return Samples(as_ready(np.zeros((count, 0))), names, labels, domains)

    def _column(self, what: str) -> str | None:
        given: str | None = getattr(self, what)
        return given if given is not None else self.usual.get(what)

    def _folder(self, folder: Path, form: ImageForm, progress: Progress) -> Samples:
        if not self.labelled:
            paths = list(images_below(folder))
            if not paths:
                raise DataError(f"{folder} holds no images ({', '.join(SUFFIXES[:5])}, …)")
            return _images(paths, form, progress, relative_to=folder)
        found, notes = find_images(folder)
        labels, domains = [s.label for s in found], [s.domain for s in found]
        samples = _images(
            [s.path for s in found], form, progress, labels, domains, relative_to=folder
        )
        return replace(samples, notes=(*notes, *samples.notes))

    def _traps(self, path: Path, form: InputForm, progress: Progress) -> Samples:
        if not isinstance(form, ImageForm):
            shape = ", ".join(map(str, form.input_shape))
            raise DataError(f"{path.name} lists images, but the model takes [n, {shape}]")
        found, notes = camera_traps(path, self.domain, labelled=self.labelled)
        labels = [s.label for s in found] if self.labelled else None
        samples = _images(
            [s.path for s in found], form, progress, labels, [s.domain for s in found]
        )
        return replace(samples, notes=(*notes, *samples.notes))

    def _manifest(self, path: Path, form: ImageForm, progress: Progress) -> Samples:
        table = read_table(path)
        column = column_name(table.column_names, path.name, "image", self._column("image"))
        described = self._described(table, path.name, len(table))
        codes, _ = cells_of(table, column).texts
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0]) + 1
            raise DataError(f"column {quoted(column)} of {path.name} has no path in row {row}")
        values = [str(value).strip() for value in table.column(column).to_pylist()]
        root, _ = image_root(path, values[:1])
        paths = [root / value for value in values]
        samples = _images(paths, form, progress, described.labels, described.domains)
        kept = {name: described.names[name] for name in self.keep}
        return replace(samples, names={**samples.names, **kept}) if kept else samples

    def _array(self, path: Path, form: InputForm) -> Samples:
        found = array_samples(
            path, self.label, self.domain, usual=self.usual, labelled=self.labelled
        )
        if self.labelled and found.label is None:
            raise DataError(
                f"{path.name} has no labels: set `label` to one of its arrays or to a .npy file, or"
                " put labels.npy in the same folder"
            )
        if found.images is None:
            inputs = self._inputs(found.table, path.name, form)
        elif isinstance(form, TableForm):
            inputs = form.read(found.images, table=path.name)
        else:
            inputs = form.read(found.images)
        roles = {"label": found.label, "domain": found.domain}
        named_roles = {role: name for role, name in roles.items() if name is not None}
        named_roles |= {"by": self.usual["by"]} if "by" in self.usual else {}
        own = None if self.domain is None else found.domain
        plain = replace(self, label=None, domain=own, usual=named_roles)
        described = plain._described(found.table, path.name, found.size)
        return replace(described, inputs=inputs)

    def _inputs(self, rows: pa.Table, table: str, form: InputForm) -> Inputs:
        """Convert the rows of a table to model inputs.

        Columns are found by name.  Vectors with other names than in training, and all vectors for a
        model without columns, are used in their order in the table.
        """
        parts = vectors_in(rows.column_names).values()
        vectors = [name for components in parts for name in components]

        def block() -> np.ndarray:
            return np.stack([np.array(rows.column(name)) for name in vectors], axis=1)

        if not isinstance(form, TableForm):
            if not vectors:
                shape = ", ".join(map(str, form.input_shape))
                raise DataError(
                    f"{table} has no vectors, but the model takes [n, {shape}]: pass a Parquet file"
                    " with a list column, a table with columns v[0], v[1], …, or a .npy file"
                )
            return form.read(block())
        known = [column.name for column in form.columns.columns.columns]
        unknown = not set(known) & set(rows.column_names)
        renamed = unknown and len(vectors) == len(known)
        if unknown and vectors and not renamed and len(vectors_in(known)) == 1:
            raise DataError(
                f"{table} has vectors of {counted(len(vectors), 'number')}, but the model takes"
                f" {len(known)}"
            )
        return form.read(block() if renamed else rows, table=table)

    def _dataset(self, name: str, form: InputForm, seed: int, progress: Progress) -> list[Samples]:
        request = DataRequest(name, self.options, self.label, self.domain, self.image)
        dataset = request.load(seed, progress)
        if dataset.input_shape != form.input_shape or dataset.preparation is not None:
            raise DataError(
                f"{dataset.name} has inputs of shape {dataset.input_shape}, but the model takes"
                f" {form.input_shape}"
            )
        found = []
        for domain in dataset.domains:
            x = domain.given.x
            labels = [dataset.classes[label] for label in domain.label_array.tolist()]
            found.append(
                Samples(
                    x if isinstance(x, LazyInputs) else as_ready(domain.rows()),
                    {"row": range(1, len(domain) + 1)},
                    labels if self.labelled else None,
                    [domain.name] * len(domain),
                )
            )
        return found


def _images(
    paths: Sequence[Path],
    form: ImageForm,
    progress: Progress,
    labels: Sequence[str | None] | None = None,
    domains: Sequence[str] | None = None,
    relative_to: Path | None = None,
) -> Samples:
    """Return the readable images, with a note on the unreadable ones."""
    records = scan(paths, progress)
    good = np.array([i for i, record in enumerate(records) if record.readable], dtype=np.int64)
    broken = [record for record in records if not record.readable]
    if len(good) == 0:
        raise DataError(f"none of the {len(paths)} images can be read: {broken[0].error}")
    notes: tuple[str, ...] = ()
    if broken:
        notes = (
            f"left out {len(broken)} of {len(paths)} images that cannot be read, the first"
            f" {broken[0].path} ({broken[0].error})",
        )
    shown = [str(path if relative_to is None else path.relative_to(relative_to)) for path in paths]
    files = ImageFiles(records, ImageView(form.image_size, augment=False))
    return Samples(files, {"path": shown}, labels, domains, notes).take(good)
