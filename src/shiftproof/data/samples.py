"""Samples for a trained model: read in its input form, with or without labels and domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import listed, quoted
from shiftproof.data.base import DATASETS, Progress, silent
from shiftproof.data.images.files import ImageFiles, ImageView
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.index import scan
from shiftproof.data.images.suffixes import SUFFIXES
from shiftproof.data.images.walk import images_below
from shiftproof.data.input_forms import ImageForm, InputForm, Inputs, TableForm
from shiftproof.data.load import DataRequest
from shiftproof.data.not_data import refuse_address
from shiftproof.data.tables.cell_types import named, texts
from shiftproof.data.tables.column_names import column_names
from shiftproof.data.tables.dataset import column_of
from shiftproof.data.tables.read_file import read_frame
from shiftproof.data.tables.unseen import unseen_notes

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# One class or number as text, or the numbers of several targets; None if it is missing.
Label = str | tuple[str, ...] | None
# The domain of samples whose domain is unknown.
ALL = "all"


@dataclass(frozen=True)
class Samples:
    """Inputs in the order they were found, with their labels and domains if known.

    `names` are columns that identify the samples (a row, a path).  `labels` and `domains` are
    texts, one for each sample, or of several targets one for each; a missing label is None.
    """

    inputs: Inputs
    names: Mapping[str, Sequence[Any]]
    labels: Sequence[Label] | None = None
    domains: Sequence[str] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, index: np.ndarray) -> Samples:
        """Return the samples at `index`."""
        return replace(
            self,
            inputs=_taken(self.inputs, index),
            names={name: [column[i] for i in index] for name, column in self.names.items()},
            labels=None if self.labels is None else [self.labels[i] for i in index],
            domains=None if self.domains is None else [self.domains[i] for i in index],
        )

    def by_domain(self) -> dict[str, Samples]:
        """Return the samples of each domain, in the order of their names."""
        if self.domains is None:
            return {ALL: self}
        domains = np.array(self.domains, dtype=object)
        return {name: self.take(np.flatnonzero(domains == name)) for name in sorted(set(domains))}


@dataclass(frozen=True)
class SampleRequest:
    """Which samples, and how to read them.

    `data` is what a model of this form takes: a table; a folder of images, one image, or a
    manifest; an array (`.npy`, or `.npz` with x, y and domain); or a dataset name, with its
    `options`.  `label`, `domain` and `image` name columns, by default those of the model's
    training data (`usual`); `keep` names columns to copy to the output.  With `labelled`,
    labels are required, and a folder of images must be DIR/domain/class/*.jpg.
    """

    data: str
    label: str | None = None
    domain: str | None = None
    image: str | None = None
    keep: tuple[str, ...] = ()
    usual: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    labelled: bool = False

    def read(self, form: InputForm, seed: int, progress: Progress = silent) -> list[Samples]:
        """Return the samples, in as many parts as they are stored in."""
        path = Path(self.data).expanduser()
        if self.data in DATASETS:
            return self._dataset(form, seed, progress)
        if self.options:
            raise InvalidValue(f"`options` are for dataset names, and {self.data} is a path")
        refuse_address(self.data)
        if not path.exists():
            raise DataError(f"no such file or folder: {self.data}")
        if path.suffix.lower() in (".npy", ".npz"):
            return [self._array(path, form)]
        if isinstance(form, TableForm):
            if path.is_dir() or path.suffix.lower() in SUFFIXES:
                kind = "a folder" if path.is_dir() else "an image"
                raise DataError(f"{path} is {kind}, but the model takes rows of a table")
            if self.image is not None:
                raise InvalidValue("`image` is for models of images, but this one takes a table")
            return [self._rows(path, form)]
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

    def _rows(self, path: Path, form: TableForm) -> Samples:
        frame = named(read_frame(path), path.name)
        inputs = form.read(frame, table=path.name)
        notes = tuple(unseen_notes(form.columns.columns, frame))
        return replace(self._described(frame, path.name), inputs=inputs, notes=notes)

    def _described(self, frame: pd.DataFrame, table: str) -> Samples:
        """Return names, labels and domains of a table's rows, without inputs."""
        names: dict[str, Sequence[Any]] = {"row": range(1, len(frame) + 1)}
        names |= {
            c: frame[c].tolist() for c in (column_of(frame, table, "keep", k) for k in self.keep)
        }
        labels = domains = None
        if self.labelled:
            names_of = column_names(list(frame.columns), table, "label", self._column("label"))
            labels = _labels(frame[names_of])
        plain = "by" not in self.usual  # a date, say, is not the domain that it was turned into
        if self.domain is not None or (plain and self._column("domain") in frame):
            found = _texts(frame[column_of(frame, table, "domain", self._column("domain"))])
            domains = ["none" if name is None else name for name in found]
        return Samples(torch.zeros(len(frame), 0), names, labels, domains)

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

    def _manifest(self, path: Path, form: ImageForm, progress: Progress) -> Samples:
        frame = named(read_frame(path), path.name)
        column = column_of(frame, path.name, "image", self._column("image"))
        described = self._described(frame, path.name)
        codes, _ = texts(frame[column])
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0]) + 1
            raise DataError(f"column {quoted(column)} of {path.name} has no path in row {row}")
        paths = [path.parent / str(value).strip() for value in frame[column]]
        samples = _images(paths, form, progress, described.labels, described.domains)
        kept = {name: described.names[name] for name in self.keep}
        return replace(samples, names={**samples.names, **kept}) if kept else samples

    def _array(self, path: Path, form: InputForm) -> Samples:
        import pandas as pd

        try:
            loaded = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is not an array of numbers ({error})") from error
        arrays = {"x": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
        if "x" not in arrays:
            raise DataError(f"{path} has no array x, only {listed(sorted(arrays))}")
        if self.labelled and "y" not in arrays:
            raise DataError(f"{path} has no labels; pass a .npz file with x and y (and domain)")
        inputs = form.read(arrays["x"])

        def column(name: str) -> list[Any] | None:
            if name not in arrays:
                return None
            if len(arrays[name]) != len(inputs):
                raise DataError(f"{path}: {name} has {len(arrays[name])} entries for {len(inputs)}")
            return _texts(pd.Series(arrays[name]))

        labels: Sequence[Label] | None = None
        if self.labelled and arrays["y"].ndim == 2 and len(arrays["y"]) == len(inputs):
            labels = _labels(pd.DataFrame(arrays["y"]))
        elif self.labelled:
            labels = column("y")
        return Samples(inputs, {"row": range(1, len(inputs) + 1)}, labels, column("domain"))

    def _dataset(self, form: InputForm, seed: int, progress: Progress) -> list[Samples]:
        request = DataRequest(self.data, self.options, self.label, self.domain, self.image)
        dataset = request.load(seed, progress)
        if dataset.input_shape != form.input_shape or dataset.preparation is not None:
            raise DataError(
                f"{dataset.name} has inputs of shape {dataset.input_shape}, but the model takes"
                f" {form.input_shape}"
            )
        return [
            Samples(
                domain.x,
                {"row": range(1, len(domain) + 1)},
                [dataset.classes[label] for label in domain.y.tolist()] if self.labelled else None,
                [domain.name] * len(domain),
            )
            for domain in dataset.domains
        ]


def _images(
    paths: Sequence[Path],
    form: ImageForm,
    progress: Progress,
    labels: Sequence[Label] | None = None,
    domains: Sequence[str] | None = None,
    relative_to: Path | None = None,
) -> Samples:
    """Return the images that can be read; notes say which cannot."""
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


def _texts(series: pd.Series) -> list[str | None]:
    """Return a column as texts, None where the value is missing."""
    codes, found = texts(series)
    lookup = [*found, None]
    return [lookup[code] for code in codes]


def _labels(frame: pd.DataFrame) -> list[Label]:
    """Return the labels of rows; of several columns, those of a row together."""
    if frame.shape[1] == 1:
        return list(_texts(frame.iloc[:, 0]))
    rows = zip(*(_texts(frame.iloc[:, place]) for place in range(frame.shape[1])), strict=True)
    return [None if None in row else tuple(map(str, row)) for row in rows]


def _taken(inputs: Inputs, index: np.ndarray) -> Inputs:
    if isinstance(inputs, Tensor):
        return inputs[torch.from_numpy(index)]
    if isinstance(inputs, ImageFiles):
        return ImageFiles([inputs.records[i] for i in index], inputs.view)
    raise DataError(f"samples cannot be taken from {type(inputs).__name__}")
