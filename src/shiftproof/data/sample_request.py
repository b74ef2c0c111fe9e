"""Read samples for a trained model from a path, a dataset name or a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, quoted
from shiftproof.data.base import DATASETS, Progress, silent
from shiftproof.data.domain import LazyInputs
from shiftproof.data.images.files import ImageFiles, ImageView
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.index import scan
from shiftproof.data.images.manifest import SUFFIX as CAMERA_TRAPS, camera_traps
from shiftproof.data.images.walk import SUFFIXES, image_root, images_below
from shiftproof.data.input_forms import ImageForm, InputForm, Inputs, Samples, TableForm, as_ready
from shiftproof.data.load import DataRequest
from shiftproof.data.not_data import require_path
from shiftproof.data.tables.array_files import array_samples, is_array_file
from shiftproof.data.tables.cell_types import cells_of
from shiftproof.data.tables.column_names import column_name
from shiftproof.data.tables.preprocessing import unseen_notes
from shiftproof.data.tables.read import as_table, is_frame, read_table
from shiftproof.data.tables.vectors import vectors_in

if TYPE_CHECKING:
    import pandas as pd

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
        if isinstance(self.data, str) and self.data in DATASETS:
            return self._dataset(self.data, form, seed, progress)
        if self.options:
            what = (
                f"but {self.data} is a path" if isinstance(self.data, str) else f"not for {FRAME}"
            )
            raise InvalidValue(f"`options` are for dataset names, {what}")
        if not isinstance(self.data, str):
            if not is_frame(self.data):
                raise DataError(
                    f"`data` must be a path or a data frame, not {type(self.data).__name__}; arrays"
                    " and lists of image files are for the model's own `predict`"
                )
            if isinstance(form, ImageForm):
                raise DataError(
                    f"the model takes images, not {FRAME}: pass a folder or a list of them"
                )
            return [self._rows(as_table(self.data, FRAME), FRAME, form)]
        path = require_path(self.data)
        if not path.exists():
            raise DataError(f"no such file or folder: {self.data}")
        if is_array_file(path):
            return [self._array(path, form)]
        if isinstance(form, ImageForm):
            return [self._images(path, form, progress)]
        suffix = path.suffix.lower()
        if path.is_dir() or suffix in (*SUFFIXES, CAMERA_TRAPS):
            holds = "is a folder" if path.is_dir() else "lists images"
            holds = "is an image" if suffix in SUFFIXES else holds
            raise DataError(f"{path} {holds}, but the model takes {_described_form(form)}")
        if self.image is not None:
            raise InvalidValue("`image` is for models of images, but this one takes a table")
        if len(form.input_shape) != 1:
            raise DataError(
                f"the model takes {_described_form(form)}: pass a .npy file or a dataset name, not"
                f" {path}"
            )
        return [self._rows(read_table(path), path.name, form)]

    def _rows(self, rows: pa.Table, table: str, form: InputForm) -> Samples:
        inputs = self._inputs(rows, table, form)
        notes: tuple[str, ...] = ()
        if isinstance(form, TableForm):
            notes = tuple(unseen_notes(form.columns.columns, rows))
        return replace(self._described(rows, table, len(rows)), inputs=inputs, notes=notes)

    def _described(self, rows: pa.Table, table: str, count: int) -> Samples:
        """Return the names, labels and domains of a table's rows, without inputs."""

        import pandas as pd

        def texts(role: str) -> list[str | None]:
            column = column_name(rows.column_names, table, role, self._column(role))
            return cells_of(rows, column).text_list

        names: dict[str, Sequence[Any]] = {"row": range(1, count + 1)}
        for given in self.keep:
            column = column_name(rows.column_names, table, "keep", given)
            # Whole numbers stay whole, also beside missing ones.
            whole = {pa.int64(): pd.Int64Dtype()}
            names[column] = rows.column(column).to_pandas(types_mapper=whole.get).tolist()
        labels = texts("label") if self.labelled else None
        domains = None
        plain = "by" not in self.usual  # with `by`, the column holds e.g. dates, not domains
        if self.domain is not None or (plain and self._column("domain") in rows.column_names):
            domains = ["none" if name is None else name for name in texts("domain")]
        return Samples(as_ready(np.zeros((count, 0))), names, labels, domains)

    def _column(self, what: str) -> str | None:
        given: str | None = getattr(self, what)
        return given if given is not None else self.usual.get(what)

    def _images(self, path: Path, form: ImageForm, progress: Progress) -> Samples:
        """Read a folder, a list of camera traps, a single image or a manifest."""
        labels: Sequence[str | None] | None = None
        domains: Sequence[str] | None = None
        notes: list[str] = []
        names: dict[str, Sequence[Any]] = {}
        if path.suffix.lower() == CAMERA_TRAPS or (path.is_dir() and self.labelled):
            listed, notes = (
                find_images(path)
                if path.is_dir()
                else camera_traps(path, self.domain, labelled=self.labelled)
            )
            paths = [image.path for image in listed]
            domains = [image.domain for image in listed]
            labels = [image.label for image in listed] if self.labelled else None
        elif path.is_dir():
            paths = list(images_below(path))
            if not paths:
                raise DataError(f"{path} holds no images ({', '.join(SUFFIXES[:5])}, …)")
        elif path.suffix.lower() in SUFFIXES:
            if self.labelled:
                raise DataError(f"{path} is one image, without a label; pass DIR/domain/class/*")
            paths = [path]
        else:
            table = read_table(path)
            column = column_name(table.column_names, path.name, "image", self._column("image"))
            codes, _ = cells_of(table, column).texts
            if (codes < 0).any():
                row = int(np.flatnonzero(codes < 0)[0]) + 1
                raise DataError(f"column {quoted(column)} of {path.name} has no path in row {row}")
            values = [str(value).strip() for value in table.column(column).to_pylist()]
            root, _ = image_root(path, values[:1])
            paths = [root / value for value in values]
            described = self._described(table, path.name, len(table))
            labels, domains = described.labels, described.domains
            names = {name: described.names[name] for name in self.keep}
        records = scan(paths, progress)
        readable = np.array([i for i, record in enumerate(records) if record.readable], np.int64)
        broken = [record for record in records if not record.readable]
        if len(readable) == 0:
            raise DataError(f"none of the {len(paths)} images can be read: {broken[0].error}")
        if broken:
            notes.append(
                f"left out {len(broken)} of {len(paths)} images that cannot be read, the first"
                f" {broken[0].path} ({broken[0].error})"
            )
        path_names = [str(image.relative_to(path) if path.is_dir() else image) for image in paths]
        files = ImageFiles(records, ImageView(form.image_size, augment=False))
        samples = Samples(files, {"path": path_names, **names}, labels, domains, tuple(notes))
        return samples.take(readable)

    def _array(self, path: Path, form: InputForm) -> Samples:
        arrays = array_samples(
            path, self.label, self.domain, usual=self.usual, labelled=self.labelled
        )
        if self.labelled and arrays.label is None:
            raise DataError(
                f"{path.name} has no labels: set `label` to one of its arrays or to a .npy file, or"
                " put labels.npy in the same folder"
            )
        if arrays.images is None:
            inputs = self._inputs(arrays.table, path.name, form)
        else:
            given: dict[str, Any] = {"table": path.name} if isinstance(form, TableForm) else {}
            inputs = form.read(arrays.images, **given)
        # With `by`, the domains of the training data are e.g. periods of the dates in its array.
        plain = self.domain is not None or "by" not in self.usual
        domain = arrays.domain if plain else None
        request = replace(self, label=arrays.label, domain=domain, usual={})
        return replace(request._described(arrays.table, path.name, arrays.size), inputs=inputs)

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
        request = DataRequest(
            name, label=self.label, domain=self.domain, image=self.image, options=self.options
        )
        dataset = request.load(seed, progress)
        if dataset.input_shape != form.input_shape or dataset.preparation is not None:
            raise DataError(
                f"{dataset.name} has inputs of shape {dataset.input_shape}, but the model takes"
                f" {form.input_shape}"
            )
        parts = []
        for domain in dataset.domains:
            x = domain.given.x
            inputs = x if isinstance(x, LazyInputs) else as_ready(domain.rows())
            labels = [dataset.classes[label] for label in domain.label_array.tolist()]
            known = labels if self.labelled else None
            names = {"row": range(1, len(domain) + 1)}
            parts.append(Samples(inputs, names, known, [domain.name] * len(domain)))
        return parts


def _described_form(form: InputForm) -> str:
    if isinstance(form, TableForm):
        return "rows of a table"
    return f"arrays of shape [n, {', '.join(map(str, form.input_shape))}]"
